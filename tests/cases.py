"""Which cases of a parametrised test `make test` tries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def tried_first(cases: Iterable[object], count: int = 1) -> list[Any]:
    """All cases, those behind the first ``count`` marked as slow.

    A plain tuple is the values of several parameters.
    """
    return [
        pytest.param(
            *(case if type(case) is tuple else (case,)),
            marks=() if place < count else pytest.mark.slow,
        )
        for place, case in enumerate(cases)
    ]
