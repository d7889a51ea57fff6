"""Which calls are looked at: step and rank windows, target and white lists, samples."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch._ops import OpOverload

from msprobe_operators.call.arguments import signature
from msprobe_operators.call.operator import operator_name

# Signatures that are remembered; beyond it calls are looked at again.
_MOST_SIGNATURES = 1 << 16


@dataclass
class Gate:
    """Decides for each call; names are those of ``operator_name``, with or without overload.

    ``sample`` is None for every call, ``"signature"`` for one call of each operator, shapes,
    dtypes and other arguments, or k for every k-th call.
    """

    enabled: bool = True
    target_list: frozenset[str] = frozenset()
    white_list: frozenset[str] = frozenset()
    enable_ranks: frozenset[int] | None = None
    start_step: int | None = None
    end_step: int | None = None
    sample: str | int | None = None
    step: int = 0
    _seen: set[object] = field(default_factory=set)
    _count: int = 0

    @property
    def is_open_ever(self) -> bool:
        """Whether any step of this rank is looked at; a process on its own counts as rank 0."""
        return self.enabled and (self.enable_ranks is None or max(rank(), 0) in self.enable_ranks)

    def is_open(self) -> bool:
        """Whether calls of this step and rank are looked at at all."""
        if not self.is_open_ever:
            return False
        if self.start_step is not None and self.step < self.start_step:
            return False
        return self.end_step is None or self.step < self.end_step

    def why_passed_over(self, operator: OpOverload) -> str | None:
        """Which list keeps an operator out, None when none does."""
        if self.target_list:
            return None if _named(operator, self.target_list) else "is not in target_list, pass"
        return "is in white_list, pass" if _named(operator, self.white_list) else None

    def is_due(self, operator: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether this call is in the sample."""
        if self.sample is None:
            return True
        if self.sample == "signature":
            key = signature(operator, args, kwargs)
            if key in self._seen:
                return False
            if len(self._seen) >= _MOST_SIGNATURES:
                self._seen.clear()
            self._seen.add(key)
            return True
        self._count += 1
        return (self._count - 1) % int(self.sample) == 0


def gate(
    enabled: bool,
    target_list: Iterable[str] | None,
    target_op: Iterable[str] | None,
    white_list: Iterable[str] | None,
    enable_ranks: Sequence[int] | None,
    start_step: int | None,
    end_step: int | None,
    sample: str | int | None = None,
) -> Gate:
    """A gate of the documented parameters; ``target_op`` is another spelling of target_list."""
    if target_list is not None and target_op is not None:
        raise ValueError("target_list and target_op are the same list; give one of them.")
    if sample not in (None, "signature") and not (isinstance(sample, int) and sample > 0):
        raise ValueError(f"sample={sample!r} must be None, 'signature' or a positive number.")
    return Gate(
        enabled,
        _names("target_list", target_list if target_op is None else target_op),
        _names("white_list", white_list),
        None if enable_ranks is None else frozenset(enable_ranks),
        start_step,
        end_step,
        sample,
    )


def rank() -> int:
    """The rank of this process, -1 outside distributed runs."""
    from torch import distributed

    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank()
    value = os.environ.get("RANK", "")
    return int(value) if value.isdigit() else -1


def _names(key: str, given: Iterable[str] | None) -> frozenset[str]:
    if given is None:
        return frozenset()
    if isinstance(given, str):
        raise ValueError(f"{key}={given!r} must be a list of operators' names.")
    return frozenset(given)


def _named(operator: OpOverload, names: frozenset[str]) -> bool:
    full = operator_name(operator)
    if full in names:
        return True
    packet = ".".join(full.split(".")[:4])
    return packet in names
