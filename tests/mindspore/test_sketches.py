"""Sketches of MindSpore's tensors, held against the saved tensors and against each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mindspore", reason="MindSpore is not installed: make test-mindspore")

import mindspore
from mindspore import Tensor, mint, nn

from msprobe_builder.sketch.definition import FLAT, sketch_of
from msprobe_builder.sketch.file import Sketches, read_sketches
from tests.mindspore.recording import Recorded, record, tensors
from tests.mindspore.test_twins import step_of
from tests.mindspore.twins import cnn

_SECTIONS = (("input_args", "input_kwargs", "input"), ("output",), ("parameters",))


def sketches_of(step: Recorded) -> Sketches:
    found = read_sketches(step.folder / "sketch.bin", len(step.data))
    assert found is not None
    return found


def test_each_tensor_has_the_sketch_of_what_was_saved(tmp_path: Path) -> None:
    step = step_of(tmp_path / "d", cnn(), task="tensor", summary_mode="sketch")
    found, records = sketches_of(step), list(step.data.items())
    rows = found.rows(found.places["row"])
    compared = 0
    for place, row in zip(found.places, rows, strict=True):
        name, content = records[place["record"]]
        if place["section"] >= len(_SECTIONS) or name.endswith("parameters_grad"):
            continue
        there = [content[key] for key in _SECTIONS[place["section"]] if content.get(key)]
        array = step.tensor(list(tensors(there))[place["position"]])
        np.testing.assert_array_equal(row["numbers"], sketch_of(array).numbers, err_msg=name)
        compared += 1
    assert compared > 300
    assert len(np.unique(found.places["row"])) < compared  # what is shown again is there once


class Sums(nn.Cell):
    def construct(self, x: Any, y: Any) -> Any:
        return mint.add(x, y)


@pytest.mark.parametrize("dtype", [mindspore.float32, mindspore.bfloat16, mindspore.int32])
def test_the_sketch_of_a_sum_is_the_sum(tmp_path: Path, dtype: Any) -> None:
    chance = np.random.default_rng(1)
    # Sums of small whole numbers are exact in each of the types.
    x, y = (Tensor(chance.integers(-9, 9, (40, 30)).astype(np.float32)) for _ in range(2))
    x, y = x.astype(dtype), y.astype(dtype)
    model = Sums()
    step = record(tmp_path / "d", model, lambda: model(x, y), summary_mode="sketch")
    found, name = sketches_of(step), "Mint.add.0.forward"
    own = found.places[found.places["record"] == list(step.data).index(name)]
    given, other, result = found.rows(own["row"])["numbers"]
    np.testing.assert_allclose(given + other, result, rtol=0, atol=1e-3)
    size = step.data[name]["output"][0]["Norm"]
    assert np.linalg.norm(result[:FLAT]) == pytest.approx(size, rel=0.5)


def test_what_is_not_finite_is_counted(tmp_path: Path) -> None:
    numbers = np.ones((4, 50), np.float32)
    numbers[0, :3], numbers[1, 0] = np.nan, -np.inf
    model = Sums()
    step = record(
        tmp_path / "d",
        model,
        lambda: model(Tensor(numbers), Tensor(numbers)),
        summary_mode="sketch",
    )
    found = sketches_of(step)
    assert set(
        zip(
            *(found.rows(found.places["row"])[key].tolist() for key in ("nans", "infinities")),
            strict=True,
        )
    ) == {(3, 1)}
