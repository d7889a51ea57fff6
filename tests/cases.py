"""Which cases `make test` tries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

QUICK, THOROUGH = "quick", "thorough"


def tried_first(cases: Iterable[object], count: int = 1) -> list[Any]:
    """All cases of a parametrised test, those behind the first ``count`` marked as slow.

    A plain tuple is the values of several parameters.
    """
    return [
        pytest.param(
            *(case if type(case) is tuple else (case,)),
            marks=() if place < count else pytest.mark.slow,
        )
        for place, case in enumerate(cases)
    ]


def costly_examples(quick: int = 5, thorough: int = 200) -> int:
    """How many inputs to generate where each of them costs a build or more."""
    return quick if settings.get_current_profile_name() == QUICK else thorough
