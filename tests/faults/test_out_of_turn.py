"""Calls of one tensor that look alike in half precision, and were paired with each other's."""

from __future__ import annotations

from pathlib import Path

from tests.faults.case import HALF, Case
from tests.faults.scoring import score


def test_slices_that_look_alike_are_no_other_arguments(tmp_path: Path) -> None:
    """Both sides take the same slices, one of them by plain calls, and more often."""
    found = score(Case("chunked", "equal_smoothed", kind=HALF, seed=2575), tmp_path)
    assert not found.is_strong
    assert not any("in the reference" in one.evidence for one in found.verdict.suspects)
