"""The same of what is told by default: by the rules and the model of error together."""

from __future__ import annotations

import pytest

from tests.properties import test_same_verdict
from tests.properties.conftest import Tell, judged_by
from tests.properties.test_same_verdict import (
    CASES,
    LABELS,
    Folders,
    needs,
    test_names_of_another_library,
    test_other_units,
    test_ranks_called_otherwise,
    test_unrelated_calls,
)

__all__ = [
    "test_names_of_another_library",
    "test_other_units",
    "test_ranks_called_otherwise",
    "test_unrelated_calls",
]
# The model names the router where the rules name what the other side lacks, from one side alone,
# and is sure of a gradient from one side alone.
ONE_SIDED = (LABELS, "transformers/grad_accum", "transformers/moe_norm")


@pytest.fixture(scope="module")
def tell(tmp_path_factory: pytest.TempPathFactory) -> Tell:
    return judged_by("both", tmp_path_factory)


@pytest.mark.parametrize(
    "case",
    [
        *(one for one in CASES if one not in ONE_SIDED),
        *(needs("who is accused depends on which run is the reference", one) for one in ONE_SIDED),
    ],
)
def test_sides_exchanged(case: str, recorded: Folders, tell: Tell) -> None:
    test_same_verdict.test_sides_exchanged(case, recorded, tell)
