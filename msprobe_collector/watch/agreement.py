"""What ranks that hold the same parameters must have alike, whatever data each is given.

Parameters, the gradients that optimizers are given, what a whole group gets from a collective, and
what a call makes that is given the same. Of calls alone those are judged that neither draw random
numbers nor read what they are not given.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from msprobe_builder.operators.operator import Kind
from msprobe_builder.operators.questions import is_uninitialised
from msprobe_builder.operators.table import draws, operator_of
from msprobe_builder.sketch.layout import NO_ROW
from msprobe_collector.watch.differing import Difference, Pair, difference_of, has_size
from msprobe_collector.watch.journal import Entry
from msprobe_collector.watch.reference import Keys, Shown, shown_in

_EQUAL = 1e-5  # share of its size by which a tensor differs from its copy: sketches are rounded
_BY_ALL = {"all_reduce", "broadcast", "all_gather", "all_gather_into_tensor", "all_gather_tensor"}


class Why(Enum):
    """Why it must be alike."""

    PARAMETER = "parameter"
    GRADIENT = "gradient"
    COLLECTIVE = "collective"
    CALL = "call"


class Subject(NamedTuple):
    """A record, and what of it must be alike."""

    name: str
    record: Mapping[str, Any]
    why: Why
    entry: Entry


def subject_of(
    name: str, record: Mapping[str, Any], keys: Keys, world: Sequence[int]
) -> Subject | None:
    """Of a record of dump.json; None where nothing of it must be alike.

    ``world`` are the ranks of a call that names no group.
    """
    if name.startswith("Module."):
        held = {"parameters": record.get("parameters")}
        return _subject(name, record, Why.PARAMETER, keys, 0, shown_in(name, held, None))
    if ".parameters_grad" in name:
        return None  # as backward leaves it, before it is averaged
    stem, _, _ = name.rpartition(".")
    operator = operator_of(stem.rpartition(".")[0])
    if operator.kind is Kind.COLLECTIVE:
        if operator.name not in _BY_ALL or name.endswith(".backward"):
            return None
        ranks = _group(record) or world
        results = {"output": (record.get("output") or [])[:1]}
        group = zlib.crc32(str(list(ranks)).encode())
        return _subject(name, record, Why.COLLECTIVE, keys, group, shown_in(name, results, None))
    if is_uninitialised(operator):
        return None
    shown = shown_in(name, record, None)
    if all(one.is_made for one in shown) or not any(one.is_made for one in shown):
        return None  # made of what is no tensor, which may be anything
    plain: list[str] = []
    for key in ("input_args", "input_kwargs"):
        plain += _plain_in(record.get(key))
    return _subject(name, record, Why.CALL, keys, zlib.crc32("|".join(plain).encode()), shown)


def _subject(
    name: str, record: Mapping[str, Any], why: Why, keys: Keys, plain: int, shown: list[Shown]
) -> Subject | None:
    if not shown:
        return None
    return Subject(name, record, why, Entry(keys.of(name), plain, shown))


def is_given_otherwise(own: Entry, other: Entry) -> bool:
    """Whether a look at the numbers tells that a call may be given something else.

    As on other data; or where there is no sketch, as statistics tell no order; or no numbers that
    compare: memory that nobody has written may hold NaN.
    """
    for one, its in zip(own.shown, other.shown, strict=False):
        if one.is_made:
            continue
        key = "Norm" if has_size(one.item) else "Max"
        mine, known = one.item.get(key), its.item.get(key)
        if mine is None or known is None or not math.isfinite(mine):
            return True
        if NO_ROW in (one.row, its.row):
            return True
        if abs(mine - known) > _EQUAL * abs(known):
            return True
    return False


def is_drawn(subject: Subject) -> bool:
    """Whether the call draws random numbers."""
    stem = subject.name.rpartition(".")[0].rpartition(".")[0]
    operator = operator_of(stem)
    if not operator.draws and not operator.always_draws:
        return False
    plain: dict[str, str] = {}
    by_type: dict[str, list[str]] = {"float": [], "bool": []}
    arguments = enumerate(subject.record.get("input_args") or ())
    for key, value in (*arguments, *(subject.record.get("input_kwargs") or {}).items()):
        is_plain = isinstance(value, Mapping) and "value" in value
        plain[str(key)] = str(value["value"]) if is_plain else "a tensor"
        if is_plain and value.get("type") in by_type:
            by_type[value["type"]].append(plain[str(key)])
    return draws(operator, plain, by_type["float"], by_type["bool"])


def unlike(pairs: Sequence[Pair], shares: Sequence[float]) -> Difference | None:
    """Of tensors that must be copies of each other, the first that is not."""
    for (own, other), share in zip(pairs, shares, strict=True):
        if share > _EQUAL:
            has_sizes = has_size(own.item) and has_size(other.item)
            return Difference(own.where, share if has_sizes else math.inf, math.inf, begins=True)
    return None


class Judged(NamedTuple):
    """What became of a call."""

    is_given_alike: bool
    difference: Difference | None


def judged(name: str, pairs: Sequence[Pair], shares: Sequence[float]) -> Judged:
    """Of a call, that has to make the same of the same."""
    given = [share for (own, _), share in zip(pairs, shares, strict=True) if not own.is_made]
    return Judged(max(given, default=0.0) <= _EQUAL, difference_of(name, pairs, shares))


def _group(record: Mapping[str, Any]) -> list[int] | None:
    arguments: Iterable[Any] = record.get("input_args") or ()
    for value in (*arguments, *(record.get("input_kwargs") or {}).values()):
        if isinstance(value, Mapping) and "group_ranks" in value:
            return list(value["group_ranks"])
    return None


def _plain_in(value: Any) -> Iterator[str]:
    """What a record shows beside tensors, as texts; which of its devices a rank has is left out."""
    if isinstance(value, list | tuple):
        yield str(len(value))
        for part in value:
            yield from _plain_in(part)
    elif isinstance(value, Mapping):
        if "dtype" in value and "shape" in value:
            return
        if value.get("type") == "torch.device":
            yield str(value.get("value")).partition(":")[0]
            return
        for key, part in value.items():
            yield str(key)
            yield from _plain_in(part)
    else:
        yield str(value)
