"""Which cases `make test` tries."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest
from hypothesis import settings

QUICK, THOROUGH = "quick", "thorough"
# Says what another case says; continuous integration tries it, "make test" does not.
REPEATED = pytest.mark.repeated


def tried_first(
    cases: Iterable[object], count: int = 1, others: pytest.MarkDecorator = pytest.mark.slow
) -> list[Any]:
    """All cases of a parametrised test, those behind the first ``count`` with a mark.

    A plain tuple is the values of several parameters.
    """
    return [
        pytest.param(
            *(case if type(case) is tuple else (case,)), marks=() if place < count else others
        )
        for place, case in enumerate(cases)
    ]


def by_turns(cases: Collection[object], values: Collection[object]) -> list[Any]:
    """All pairs; each case is tried with one of the values, by turns, and repeated with others."""
    return [
        pytest.param(case, value, marks=() if turn == place % len(values) else REPEATED)
        for place, case in enumerate(cases)
        for turn, value in enumerate(values)
    ]


def costly_examples(quick: int = 5, thorough: int = 200) -> int:
    """How many inputs to generate where each of them costs a build or more."""
    return quick if settings.get_current_profile_name() == QUICK else thorough
