"""What is done wrong between two steps, and what merely looks so."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from tests.faults.optimizers import CONTROLS, FAULTS, Training, judged, train

# Where no call that is to blame was recorded the weights of the next step tell.
RECORDED = {
    "rate": (0, "Tensor.mul_."),
    "epsilon": (0, "Tensor.add_."),
    "betas": (0, "Tensor.lerp_."),
    "clip": (0, "Tensor.__mul__.0.forward"),
    "no clip": (0, "Torch._foreach_mul_."),
    "decay": (0, "Tensor.mul_."),
    "later missing step": (2, "Module."),
}
UNRECORDED = {"rate": 1, "missing step": 1, "decay": 1, "later missing step": 2}


def _few(names: Iterable[str], fast: str) -> list[ParameterSet]:
    """All names, of which one is always tried."""
    return [pytest.param(one, marks=[] if one == fast else [pytest.mark.slow]) for one in names]


@pytest.mark.parametrize("name", _few(RECORDED, "no clip"))
def test_the_call_of_the_optimizer_is_named(name: str, tmp_path: Path) -> None:
    npu = train(tmp_path / "npu", FAULTS[name], recorded=True)
    bench = train(tmp_path / "bench", Training(), recorded=True)
    verdict = judged(npu, bench, tmp_path / "out")
    step, start = RECORDED[name]
    assert verdict.conclusion == "fault"
    assert verdict.first_bad_step == step
    assert verdict.suspects[0].node.startswith(start)


@pytest.mark.parametrize("name", _few(UNRECORDED, "missing step"))
def test_weights_tell_of_an_optimizer_that_was_not_recorded(name: str, tmp_path: Path) -> None:
    npu = train(tmp_path / "npu", FAULTS[name], recorded=False)
    bench = train(tmp_path / "bench", Training(), recorded=False)
    verdict = judged(npu, bench, tmp_path / "out")
    assert verdict.conclusion == "fault"
    assert verdict.first_bad_step == UNRECORDED[name]
    assert verdict.suspects[0].cause == "weights"
    assert "optimizer" in verdict.sentence


def test_runs_that_began_with_other_weights_are_told_so_once(tmp_path: Path) -> None:
    npu = train(tmp_path / "npu", Training(weights=4), recorded=False)
    bench = train(tmp_path / "bench", Training(), recorded=False)
    verdict = judged(npu, bench, tmp_path / "out")
    assert verdict.conclusion == "fault"
    assert verdict.first_bad_step == 0
    assert [one.cause for one in verdict.suspects] == ["weights"]
    assert "seed both runs alike" in verdict.sentence
    assert verdict.next_dump is None


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("name", _few(CONTROLS, "noise"))
def test_noise_that_an_optimizer_enlarges_is_no_fault(
    name: str, recorded: bool, tmp_path: Path
) -> None:
    wrong, right = CONTROLS[name]
    npu = train(tmp_path / "npu", wrong, recorded=recorded)
    bench = train(tmp_path / "bench", right, recorded=recorded)
    verdict = judged(npu, bench, tmp_path / "out")
    assert verdict.conclusion != "fault"
    assert all(place.conclusion != "fault" for place in verdict.places)
    assert all(one.strength == "weak" for one in verdict.suspects)
