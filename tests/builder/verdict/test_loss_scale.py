"""A loss that one run multiplies by a power of two, in half precision, is no fault."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from msprobe_builder.verdict.differences.loss_scale import LossScale, without_loss_scale
from tests.builder.small_dumps import Record, number
from tests.builder.verdict.columns import STATISTICS, Run, compared, measured

GRADIENTS = 6


def times(record: Record, factor: float) -> Record:
    return {**record, **{name: record[name] * factor for name in STATISTICS}}


def trained(
    factor: float, *, scaled_by: float | None = None, dtype: str = "float16", odd: int = 0
) -> Run:
    """A loss that is multiplied and derived: gradients are ``factor`` times what they were.

    ``scaled_by`` is what the recorded call multiplies by; ``odd`` gradients are as they were.
    """
    rng = np.random.default_rng(1)
    run = Run()
    x, y = (measured(rng.normal(size=(3, 4)), dtype) for _ in range(2))
    loss = measured(rng.normal(size=()) + 3)
    run.call("Torch.tanh.0.forward", [x], [y])
    run.call("Functional.mse_loss.0.forward", [y, x], [loss])
    if scaled_by is not None:
        made = times(loss, scaled_by)
        run.call("Torch.mul.0.forward", [loss, number(scaled_by)], [made])
        run.call(
            "Torch.mul.0.backward", [measured(np.ones(()))], [times(measured(np.ones(())), factor)]
        )
    for place in range(GRADIENTS):
        share = 1.0 if place < odd else factor
        made = times(measured(rng.normal(size=(3, 5 + place))), share)
        run.call(f"Torch.relu.{place}.forward", [x], [y])
        run.call(
            f"Torch.relu.{place}.backward", [times(measured(np.eye(3) + place), share)], [made]
        )
    return run


def scale_of(debug: Run, reference: Run) -> LossScale | None:
    return without_loss_scale(compared(debug, reference))[1]


@pytest.mark.parametrize("power", [-10, -3, -1, 1, 2, 7, 16])
def test_the_power_is_told_and_taken_off(power: int) -> None:
    factor = 2.0**power
    debug = trained(factor, scaled_by=factor)
    reference = trained(1.0, scaled_by=1.0)
    result = compared(debug, reference)
    alike, scale = without_loss_scale(result)
    assert scale is not None
    assert scale.factor == factor
    assert alike.bench is not None
    assert alike.comparisons is not None
    pairs, names = alike.comparisons.pairs, alike.npu.tree.names
    for row, other in zip(pairs.npu.tolist(), pairs.bench.tolist(), strict=True):
        node = alike.npu.table.node[row]
        own, there = alike.npu.table.statistics[:, row], alike.bench.table.statistics[:, other]
        if names[node].startswith("Torch.relu") and alike.npu.table.section[row] == 1:
            assert own == pytest.approx(there, rel=1e-12), names[node]
    # What is smaller was multiplied, so that nothing is rounded to nothing.
    smaller = result.npu if factor < 1 else result.bench
    larger = alike.bench if factor < 1 else alike.npu
    unchanged = result.bench if factor < 1 else result.npu
    assert smaller is not None
    assert unchanged is not None
    assert np.array_equal(larger.table.statistics, unchanged.table.statistics, equal_nan=True)


REFUSED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"factor": 1.0, "scaled_by": 1.0}, {"factor": 1.0, "scaled_by": 1.0}),
    # Nothing of half precision: nobody has to scale.
    (
        {"factor": 8.0, "scaled_by": 8.0, "dtype": "float32"},
        {"factor": 1.0, "scaled_by": 1.0, "dtype": "float32"},
    ),
    (
        {"factor": 8.0, "scaled_by": 8.0, "dtype": "bfloat16"},
        {"factor": 1.0, "scaled_by": 1.0, "dtype": "bfloat16"},
    ),
    # No power of two, or not the one that the call tells.
    ({"factor": 6.0, "scaled_by": 6.0}, {"factor": 1.0, "scaled_by": 1.0}),
    ({"factor": 8.0, "scaled_by": 4.0}, {"factor": 1.0, "scaled_by": 1.0}),
    ({"factor": 8.0, "scaled_by": 1.0}, {"factor": 1.0, "scaled_by": 1.0}),
    # Most gradients are not.
    ({"factor": 8.0, "scaled_by": 8.0, "odd": 6}, {"factor": 1.0, "scaled_by": 1.0}),
]


@pytest.mark.parametrize("place", range(len(REFUSED)))
def test_nothing_else_is_taken_for_a_scale(place: int) -> None:
    debug, reference = REFUSED[place]
    result = compared(trained(**debug), trained(**reference))
    same, scale = without_loss_scale(result)
    assert (same is result, scale) == (True, None)


@pytest.mark.parametrize("odd", [0, 1, 2])
def test_most_gradients_tell(odd: int) -> None:
    found = scale_of(trained(8.0, scaled_by=8.0, odd=odd), trained(1.0, scaled_by=1.0))
    assert found is not None
    assert found.factor == 8.0


@pytest.mark.parametrize(
    ("times", "is_scale"),
    [(1.0, True), (1.0003, True), (0.9997, True), (1.003, False), (0.99, False)],
)
def test_a_scale_is_a_power_of_two_but_for_what_half_precision_rounds(
    times: float, *, is_scale: bool
) -> None:
    found = scale_of(trained(8.0, scaled_by=8.0 * times), trained(1.0, scaled_by=1.0))
    assert (found is not None) == is_scale
