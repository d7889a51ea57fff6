"""What is known of tensors of calls that one side alone makes: errors pass through them, too."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from msprobe_builder.verdict.model.observations import observe
from msprobe_builder.verdict.model.runs import runs_of
from tests.builder.verdict.columns import Run, compared, measured, rows_by_name


def test_tensors_without_a_counterpart_are_described_by_their_own_numbers() -> None:
    random = np.random.default_rng(77)
    tensors = [
        random.normal(size=(3, 7)) + 5,  # of one sign
        random.normal(size=(4, 2)),
        np.where(random.random((5, 6)) < 0.3, -1e9, random.normal(size=(5, 6))),
        np.zeros((2, 2)),
    ]
    own, other = Run(), Run()
    for place, tensor in enumerate(tensors):
        given = measured(tensor)
        own.call(f"Torch.single.{place}.forward", [given], [given])
    for side in (own, other):
        side.call("Torch.both.0.forward", [measured(tensors[0])], [measured(tensors[1])])
    result = compared(own, other)
    assert result.comparisons is not None
    runs = runs_of(result)
    with np.errstate(all="ignore"):
        seen = observe(runs, replace(result.comparisons, metrics={}))
    names = rows_by_name(result)
    for place, tensor in enumerate(tensors):
        sizes = np.abs(tensor)
        shown, usual = sizes.max(), math.sqrt(float((tensor**2).mean()))
        if tensor.min() < -1e8:  # what a mask leaves is as large as the largest of it
            usual = shown = float(abs(tensor.max()))
        least = 0.0 if tensor.min() <= 0 <= tensor.max() else sizes.min()
        for section in ("input", "output"):
            row = names[f"Torch.single.{place}.forward:{section}.0"]
            found = [seen.rms[row], seen.peak[row], seen.smallest[row], seen.mean[row]]
            assert found == pytest.approx([usual, shown, least, tensor.mean()])
            assert seen.norm[row] == pytest.approx(float(np.linalg.norm(tensor)))
            assert math.isnan(seen.size[row])


def test_sums_of_gradients_are_described_by_their_own_numbers() -> None:
    """Of a tensor that one side alone gives to a call twice, one gradient is recorded, the sum."""
    random = np.random.default_rng(7)
    first, second, left = (measured(random.normal(size=(3, 7))) for _ in range(3))
    own, other = Run(), Run()
    for side, given in ((own, [first, first]), (other, [first, second])):
        side.call("Tensor.exp.0.forward", [first], [first])
        side.call("Torch.dot.0.forward", given, [left])
        side.call("Torch.dot.0.backward", [left], [second, second])
    result = compared(own, other)
    assert result.comparisons is not None
    runs = runs_of(result)
    seen = observe(runs, replace(result.comparisons, metrics={}))
    row = rows_by_name(result)["Torch.dot.0.backward:output.0"]
    assert runs.other[row] < 0
    assert math.isnan(seen.size[row])
    assert seen.norm[row] == second["Norm"]
