"""Gradients that are differentiated again: what a first pass shows may come of a later one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.case import HALF, NOISE, SAME, Case
from tests.faults.scoring import score


@pytest.mark.parametrize(
    "case",
    [
        Case("molecule", "force_sign", kind=SAME, seed=1148),
        Case("molecule", "forces_heavier", kind=NOISE, seed=1149),
        Case("penalised", "penalty_heavier", kind=SAME, seed=1158),
    ],
    ids=lambda case: case.name,
)
def test_a_fault_behind_a_first_pass_is_named_before_its_gradients(
    case: Case, tmp_path: Path
) -> None:
    found = score(case, tmp_path)
    assert (found.place, found.is_strong) == (1, True)
    strong = [one.node for one in found.verdict.suspects if one.strength == "strong"]
    assert not [node for node in strong if ".parameters_grad" in node or "backward" in node]


def test_a_module_called_twice_has_its_gradient_of_both_calls(tmp_path: Path) -> None:
    """It stands at the call that runs back first; the other is given twice what it should."""
    found = score(Case("squashed", "second_critic_idle", kind=HALF, seed=1228), tmp_path)
    assert found.place == 1
    assert not [one for one in found.verdict.suspects if ".parameters_grad" in one.node]
