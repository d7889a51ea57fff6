"""Another formula for the same, masks and choices: where programs part and meet again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.case import HALF, NOISE, SAME, Case
from tests.faults.scoring import score

EQUAL = [
    Case("paired", "equal_each", kind=HALF, seed=1274),
    Case("squashed", "equal_density", kind=SAME, seed=1273),
    Case("own", "equal_norm", kind=SAME, seed=1264),
    # Ways that part before a call is given anything, and that meet in attention, inside of modules.
    Case("dreamed", "equal_step", kind=SAME, seed=1922),
    Case("adapted", "equal_places", kind=SAME, seed=1926),
    Case("adapted", "equal_places", kind=HALF, seed=1926),
    # Gradients that one formula gives back, and the sum of which agrees where the tensor was made.
    Case("explained", "equal_few", kind=SAME, seed=2778),
    Case("splatted", "equal_spread", kind=SAME, seed=2772),
    # The largest of what a mask leaves is next to nothing; -1e4 in bfloat16 where float32 has -1e9.
    Case("asked", None, kind=NOISE, seed=1301),
    Case("asked", None, kind=HALF, seed=1300),
]


@pytest.mark.parametrize("case", EQUAL, ids=lambda case: case.name)
def test_another_formula_for_the_same_is_no_fault(case: Case, tmp_path: Path) -> None:
    found = score(case, tmp_path)
    assert not found.is_strong
    assert found.verdict.conclusion != "fault"


def test_a_function_of_ones_own_cuts_nothing_off(tmp_path: Path) -> None:
    """What it calls keeps no history, but all gradients agree."""
    found = score(Case("own", "equal_norm", kind=SAME, seed=1264), tmp_path)
    assert found.verdict.conclusion == "clean"


ADDED = [
    Case("untangled", "words_without_bias", kind=HALF, seed=1192),
    Case("own", "shares_dropped", 0, kind=HALF, seed=1136),
    Case("untangled", "back_left_out", 0, kind=NOISE, seed=1197),  # behind a choice
    Case("dreamed", "even_ones_not_mixed", kind=HALF, seed=1840),  # a loop makes it again
]


@pytest.mark.parametrize("case", ADDED, ids=lambda case: case.name)
def test_a_call_that_nothing_replaces_is_named_where_no_number_tells(
    case: Case, tmp_path: Path
) -> None:
    found = score(case, tmp_path)
    assert found.place == 1
    assert found.verdict.conclusion == "undecided"
    assert "and none in its place" in found.verdict.suspects[0].evidence


def test_what_is_put_at_other_places_is_no_strong_suspect(tmp_path: Path) -> None:
    """Rows were picked by another index; the call that adds them up by one shows it."""
    found = score(Case("molecule", "receiver_told", 1, kind=SAME, seed=1143), tmp_path)
    assert found.verdict.suspects
    assert not found.is_strong
