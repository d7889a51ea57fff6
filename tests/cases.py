"""Which cases of a parametrised test `make test` tries."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet


def tried_first(cases: Iterable[object], count: int = 1) -> list[ParameterSet]:
    """All cases, those behind the first ``count`` marked as slow."""
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=() if place < count else pytest.mark.slow,
        )
        for place, case in enumerate(cases)
    ]
