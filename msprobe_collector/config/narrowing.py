"""Keys that take less of each step: a part of each tensor, and calls by their weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msprobe_collector.errors import CollectorError

RISK_LEVELS = ("CORE", "FOCUS", "ALL")
_SLICE_KEYS = ("dim", "begin", "end", "size")


@dataclass(frozen=True)
class Slice:
    """Positions ``begin`` to ``end`` of a dimension, where it is there and has ``size``."""

    dim: int = 0
    begin: int = 0
    end: int | None = None
    size: int | None = None


def parse_slices(value: Any) -> tuple[Slice, ...]:
    """The key ``slice``; CollectorError names what is wrong."""
    if not isinstance(value, (list, tuple)) or not all(map(_is_slice, value)):
        raise CollectorError(
            f"slice is {value!r}; write a list of objects with whole numbers for some of"
            f" {', '.join(_SLICE_KEYS)}."
        )
    return tuple(Slice(**one) for one in value if one)


def _is_slice(value: Any) -> bool:
    if not isinstance(value, Mapping) or not set(value) <= set(_SLICE_KEYS):
        return False
    numbers = [isinstance(one, int) and not isinstance(one, bool) for one in value.values()]
    return all(numbers) and min(value.get("dim", 0), value.get("size", 0)) >= 0


def parse_request(value: Any) -> str | None:
    """The key ``request_id``."""
    if value is not None and not (isinstance(value, str) and value):
        raise CollectorError(f"request_id is {value!r}; write the name of a request.")
    return value


def parse_risk(value: Any) -> str:
    """The key ``risk_level``."""
    if value not in RISK_LEVELS:
        raise CollectorError(f"risk_level is {value!r}; choose one of {', '.join(RISK_LEVELS)}.")
    return str(value)


def of_request(request: str, scheduled: Any) -> Slice | None:
    """The rows of a request among those that an engine computes together; None without it.

    ``scheduled`` counts the tokens of each request, in their order.
    """
    is_count = isinstance(scheduled, Mapping) and all(
        isinstance(one, str) and isinstance(count, int) and count > 0
        for one, count in scheduled.items()
    )
    if not is_count:
        raise CollectorError(
            f"scheduled_tokens is {scheduled!r}; give the number of tokens of each request."
        )
    begin = 0
    for one, count in scheduled.items():
        if one == request:
            return Slice(0, begin, begin + count, sum(scheduled.values()))
        begin += count
    return None


def positions(shape: Sequence[int], slices: Sequence[Slice]) -> tuple[slice, ...] | None:
    """What to take of a tensor; None for all of it. Of one dimension the last slice counts."""
    taken = [slice(None)] * len(shape)
    found = False
    for one in slices:
        if one.dim < len(shape) and one.size in (None, shape[one.dim]):
            taken[one.dim] = slice(one.begin, one.end)
            found = True
    return tuple(taken) if found else None
