"""The verdict on models with one planted fault, and without any, recorded with their tensors.

With statistics alone there are more of them in tests/recorded, and in the bank of test_planted.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases import REPEATED, tried_first
from tests.faults.case import HALF, Case
from tests.faults.scoring import score

CONTROLS = [
    Case("asked", None, kind=HALF, seed=1310, task="tensor"),
    Case("resnet", None, kind=HALF, task="tensor"),
]


def test_the_best_suspect_is_the_culprit(tmp_path: Path) -> None:
    case = Case("retained", "summed_over_rows", 2, kind=HALF, seed=703, task="tensor")
    found = score(case, tmp_path)
    assert found.place == 1
    # What it puts out is off by less than another device's sums: the argument alone accuses it.
    assert found.verdict.conclusion in ("fault", "undecided")


@pytest.mark.parametrize("case", tried_first(CONTROLS, 1, REPEATED), ids=lambda case: case.name)
def test_nobody_is_accused_without_a_fault(case: Case, tmp_path: Path) -> None:
    found = score(case, tmp_path)
    assert not found.is_strong
    assert found.verdict.conclusion != "fault"
