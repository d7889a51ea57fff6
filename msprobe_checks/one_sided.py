"""What is said of what only one of two records has."""

from __future__ import annotations

from collections.abc import Sequence

from msprobe_builder.facts.fact import Fact, fact

FIRST, SECOND = fact("checks.first"), fact("checks.second")

_SHOWN = 3


def first_few(names: Sequence[Fact | str]) -> Fact | list[Fact | str]:
    """The first names, and how many more there are."""
    more, shown = len(names) - _SHOWN, list(names[:_SHOWN])
    return fact("and_more", names=shown, more=more) if more > 0 else shown


def only_in(rank: int, which: Fact, names: Sequence[Fact | str]) -> list[Fact]:
    """What one record of a rank has alone; nothing where it has nothing alone."""
    if not names:
        return []
    return [fact("checks.only_in", rank=rank, which=which, names=first_few(names))]


def more_parameters(count: int) -> Fact | None:
    """Behind the name of one parameter how many more there are."""
    return fact("checks.more_parameters", count=count) if count else None
