"""Gradients that are divided behind the backward passes, against losses divided before them."""

# mypy: disable-error-code="no-untyped-call"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.provenance import Provenance
from msprobe_builder.graph.side import Side
from msprobe_builder.merge.values.later_mean import with_mean_of_passes
from msprobe_builder.pipeline.compare import read_rank
from tests.collector.recording import record

PASSES = 3
Gradients = list[torch.Tensor]
Loss = Callable[[torch.Tensor], torch.Tensor]
Behind = Callable[[Gradients], object]


def side(folder: Path, texts: Texts, loss: Loss, behind: Behind) -> Side:
    """A step of three passes, and what is done to all gradients behind them."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    batches = torch.randn(PASSES, 5, 3).unbind()

    def step() -> None:
        for batch in batches:
            loss(model(batch).square().mean()).backward()
        with torch.no_grad():
            behind([one.grad for one in model.parameters() if one.grad is not None])

    dump = record(folder, step, model, level="mix")
    return replace(read_rank(dump.directory, texts)[0], provenance=Provenance())


def nothing(_: Gradients) -> None:
    """Of the other side."""


def whole(loss: torch.Tensor) -> torch.Tensor:
    return loss


def divided(loss: torch.Tensor) -> torch.Tensor:
    return loss / PASSES


def each(gradients: Gradients) -> None:
    for one in gradients:
        one.div_(PASSES)


def each_and_a_norm(gradients: Gradients) -> None:
    each(gradients)
    torch.stack([one.norm() for one in gradients]).norm().div(PASSES)


def each_and_other_writes(gradients: Gradients) -> None:
    """Such as an average of the gradients, and what an optimizer adds to weights."""
    for one in gradients:
        torch.zeros_like(one).add_(PASSES)
        torch.zeros_like(one).mul_(2)
    each(gradients)


def all_but_one(gradients: Gradients) -> None:
    each(gradients[1:])


def one_twice(gradients: Gradients) -> None:
    each([*gradients, gradients[0]])


def by_two_numbers(gradients: Gradients) -> None:
    each(gradients[1:])
    gradients[0].div_(2)


def times(gradients: Gradients) -> None:
    for one in gradients:
        one.mul_(PASSES)


def elsewhere(gradients: Gradients) -> None:
    for one in gradients:
        one.div(PASSES)


@pytest.mark.parametrize(
    ("loss", "behind", "other_loss", "is_mean"),
    [
        (whole, each, divided, True),
        (whole, each_and_a_norm, divided, True),
        (whole, each_and_other_writes, divided, True),
        (whole, nothing, divided, False),
        (whole, all_but_one, divided, False),
        (whole, one_twice, divided, False),
        (whole, by_two_numbers, divided, False),
        (whole, times, divided, False),
        (whole, elsewhere, divided, False),
        (whole, each, whole, False),
        (whole, each, lambda loss: loss / 2, False),
        (divided, each, divided, False),
        (whole, each, lambda loss: (5 * loss) / PASSES, False),
    ],
)
def test_gradients_are_divided_where_each_is_once_and_the_other_side_divides_its_losses(
    tmp_path: Path, loss: Loss, behind: Behind, other_loss: Loss, *, is_mean: bool
) -> None:
    texts = Texts()
    npu = side(tmp_path / "npu", texts, loss, behind)
    bench = side(tmp_path / "bench", texts, other_loss, nothing)
    found = with_mean_of_passes(npu, bench, texts)
    assert found.provenance is not None
    told = {row for row, recipe in found.provenance.recipes.items() if recipe}
    assert bool(told) == is_mean
    table, calls = npu.table, npu.tree.calls
    before, after = table.statistics, found.table.statistics
    unchanged = np.setdiff1d(np.arange(before.shape[1]), [*told])
    np.testing.assert_array_equal(before[:, unchanged], after[:, unchanged])
    np.testing.assert_array_equal(before[:, [*told]] / PASSES, after[:, [*told]])
    is_back = calls.direction[table.node] == Direction.BACKWARD
    of_parameters = table.section == Section.PARAMETERS_GRAD
    measured = table.is_tensor & ~np.isnan(before).all(axis=0)
    if is_mean:
        assert {*np.flatnonzero((is_back | of_parameters) & measured).tolist()} <= told
