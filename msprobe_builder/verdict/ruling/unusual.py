"""What half precision explains worst, where nobody is suspect: where to look, if anywhere."""

from __future__ import annotations

from math import hypot

from msprobe_builder.facts.fact import has_code
from msprobe_builder.facts.words import UNUSUAL
from msprobe_builder.verdict.ruling.all_ranks import Accused


def is_unusual(one: Accused) -> bool:
    """Whether it is no suspect, but what half precision explains worst."""
    return has_code(one.evidence, UNUSUAL)


def worst_first(unusual: list[Accused]) -> list[Accused]:
    """The same in order; a call that several steps or ranks name is worth all of that together."""
    worth: dict[tuple[int, str], float] = {}
    for one in unusual:
        key = one.side, one.name()
        worth[key] = hypot(worth.get(key, 0.0), _times(one))
    return sorted(unusual, key=lambda one: (-worth[one.side, one.name()], -_times(one)))


def _times(one: Accused) -> float:
    told = next(told.arguments["times"] for told in one.evidence if told.code == UNUSUAL)
    return float(told) if isinstance(told, int | float) else 0.0
