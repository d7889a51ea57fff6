"""Errors planted into recorded dumps, judged by the model of error alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.properties.planting import planted
from tests.properties.rewriting import read_dump, rewritten
from tests.properties.telling import told_of
from tests.properties.test_planted_errors import (
    LARGE,
    PROGRAMS,
    RUNS,
    SMALL,
    Folders,
    drawn,
    gradients_beside,
)

# What the model takes for nothing: all of a tensor of next to nothing, a sign that is open, and
# what (as planting does not compute) vanishes in what the module around puts out.
UNSEEN = (
    "reported/longer_sequences",
    "toy_models/braided_control_noise_2790",
    "step_functions/a_step_aside_is_no_fault-floor",
    "undetermined_signs/factors_of_another_sign_are_no_fault-qr",
)


@pytest.mark.parametrize("share", [LARGE, SMALL])
@pytest.mark.parametrize(("run", "side"), RUNS)
def test_the_model_names_the_call_that_is_off(
    run: str, side: int, share: float, recorded: Folders, tmp_path: Path
) -> None:
    folders = recorded(f"transformers/{run}")
    dump = read_dump(folders[side])
    place = drawn(dump, f"{run} 0 {share}")
    npu = rewritten(folders[side], tmp_path / "npu", planted(place, share))
    told = told_of(npu, folders[1], tmp_path, "model")
    assert told.conclusion != "clean"
    assert told.suspects[0].node in {place, *gradients_beside(dump, place)}


@pytest.mark.parametrize("name", [one for one in PROGRAMS[::3] if one not in UNSEEN])
def test_the_model_names_the_call_that_is_off_in_any_program(
    name: str, recorded: Folders, tmp_path: Path
) -> None:
    bench = recorded(name)[1]
    place = drawn(read_dump(bench), f"{name} 0.03")
    npu = rewritten(bench, tmp_path / "npu", planted(place, 0.03))
    told = told_of(npu, bench, tmp_path, "model")
    assert told.conclusion != "clean"
    assert told.suspects[0].node == place
