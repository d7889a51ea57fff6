"""The verdict on two networks that are trained in turn, and on what rounding makes of updates."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.opponents import Play, train
from tests.faults.optimizers import judged

RIGHT = Play()
CONTROLS = {
    "noise": Play(noise=1e-6),
    "reversed": Play(reversed=True),
    "half": Play(half=True),
    "autocast": Play(autocast=True),
}
FAULTS = {
    "rate": (Play(rate=2e-3), "mul_"),  # weights decay before they move
    "betas": (Play(betas=(0.5, 0.95)), "lerp_"),
    "label": (Play(invented=0.2), "full_like"),
    "weight": (Play(weight=0.5), "__mul__"),
    "clip": (Play(clip=0.05), "__mul__"),
}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("opponents"), RIGHT)


@pytest.mark.parametrize("name", CONTROLS)
def test_rounding_that_an_optimizer_enlarges_is_no_fault(
    name: str, reference: Path, tmp_path: Path
) -> None:
    verdict = judged(train(tmp_path / "npu", CONTROLS[name]), reference, tmp_path / "out")
    assert verdict.conclusion == "clean", verdict.sentence


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_beside_gradients_that_cancel(
    name: str, reference: Path, tmp_path: Path
) -> None:
    play, operator = FAULTS[name]
    verdict = judged(train(tmp_path / "npu", play), reference, tmp_path / "out")
    assert verdict.conclusion == "fault", verdict.sentence
    assert operator in verdict.suspects[0].node, verdict.sentence
    assert verdict.first_bad_step == 0
