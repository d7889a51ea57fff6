"""What is found where something does not hold, and how often something was looked at."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

from msprobe_builder.base.codes import Strength
from msprobe_builder.facts.fact import Fact, Facts, fact


class Check(Enum):
    """What is checked; also the cause of a suspect that does not keep it."""

    REDUCTION = "reduction"
    TRANSFER = "transfer"
    WEIGHT = "replica"
    UPDATE = "update"
    ADDITION = "addition"
    CALL = "call"
    FINITE = "not_finite"  # found by the overflow check, which counts nothing

    def said(self, count: int) -> Fact:
        """So many of it."""
        return _SAID[self](count)

    @classmethod
    def of(cls, code: str) -> Check | None:
        """What a fact that :meth:`said` has made is of."""
        return next((one for one in _SAID if one.said(0).code == code), None)


_SAID = {
    Check.REDUCTION: lambda count: fact("checked.reductions", count=count),
    Check.TRANSFER: lambda count: fact("checked.transfers", count=count),
    Check.WEIGHT: lambda count: fact("checked.weights", count=count),
    Check.UPDATE: lambda count: fact("checked.updates", count=count),
    Check.ADDITION: lambda count: fact("checked.additions", count=count),
    Check.CALL: lambda count: fact("checked.calls", count=count),
}


@dataclass(frozen=True)
class Violation:
    """A call that does not do what it must; ``ranks`` are those that are off, if one knows."""

    node: int  # as in the database
    check: Check
    evidence: Facts
    strength: Strength = Strength.STRONG
    error: float | None = None  # share of the size
    expected: float | None = None
    ranks: tuple[int, ...] = ()


@dataclass
class Found:
    """All that was found, and how much was checked or could not be."""

    violations: list[Violation] = field(default_factory=list)
    checked: Counter[Check] = field(default_factory=Counter)
    unchecked: Counter[Check] = field(default_factory=Counter)

    def count(self, check: Check, *, is_known: bool) -> None:
        """One more that was checked, or could not be."""
        (self.checked if is_known else self.unchecked)[check] += 1
