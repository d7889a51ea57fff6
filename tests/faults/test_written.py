"""Tensors that are written to in part, by calls that put nothing out, or given in part."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.faults.judging import SIDE, judged


class Filled(nn.Module):
    """Some columns of what it is given are overwritten, if any."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.weight = nn.Parameter(torch.randn(SIDE, SIDE))
        self.columns = columns

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = x.tanh()
        kept = kept.roll(1, -1)
        if self.columns:
            kept[:, :, : self.columns] = 0.0
        return (kept @ self.weight).square().mean()


class Masked(nn.Module):
    """A mask is made by writing to zeros, whose extremes then change."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.weight = nn.Parameter(torch.randn(SIDE, SIDE))
        self.columns = columns

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.zeros(SIDE, SIDE)
        if self.columns:
            mask[:, : self.columns] = 1.0
        return ((x.tanh() * mask) @ self.weight).square().mean()


class Taken(nn.Module):
    """What is written to is memory as it was handed out."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.weight = nn.Parameter(torch.randn(SIDE, SIDE))
        self.columns = columns

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.empty(SIDE, SIDE)
        mask[:] = 0.5
        mask[:, : self.columns] = 1.0
        return ((x.tanh() * mask) @ self.weight).square().mean()


class Picked(nn.Module):
    """A layer is given the first rows of what another one makes."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.given, self.out = nn.Linear(SIDE, SIDE), nn.Linear(SIDE, SIDE)
        self.rows = rows

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = torch.tanh(self.given(x)).flatten(0, 1)
        picked = self.out(found[: self.rows])
        return found.square().mean() + picked.square().sum()


MODELS = pytest.mark.parametrize("model", [Filled, Masked])


@MODELS
def test_a_call_that_writes_to_a_part_is_named_where_one_side_lacks_it(
    model: Callable[[int], nn.Module], tmp_path: Path
) -> None:
    for npu, bench, side, cause in ((0, 2, "bench", "missing"), (2, 0, "npu", "extra")):
        verdict = judged(tmp_path / side, model(npu), model(bench))
        best = verdict.suspects[0]
        assert (best.node, best.side, best.cause) == ("Tensor.__setitem__.0.forward", side, cause)
        assert best.strength == "strong"


@MODELS
def test_a_call_that_writes_to_another_part_is_named(
    model: Callable[[int], nn.Module], tmp_path: Path
) -> None:
    verdict = judged(tmp_path, model(3), model(2))
    best = verdict.suspects[0]
    assert (best.node, best.cause) == ("Tensor.__setitem__.0.forward", "argument")
    assert best.strength == "strong"


def test_fresh_memory_that_was_written_to_holds_what_was_written(tmp_path: Path) -> None:
    assert judged(tmp_path / "same", Taken(2), Taken(2)).conclusion == "clean"
    best = judged(tmp_path, Taken(3), Taken(2)).suspects[0]
    assert (best.node, best.cause) == ("Tensor.__setitem__.1.forward", "argument")


def test_gradients_of_weights_are_not_certain_where_a_module_is_given_another_size(
    tmp_path: Path,
) -> None:
    verdict = judged(tmp_path, Picked(20), Picked(24), level="L0")
    (found,) = (one for one in verdict.suspects if "parameters_grad" in one.node)
    assert found.strength == "weak"
    assert found.evidence.startswith("The size of input.0 of Module.out.Linear.backward.")
