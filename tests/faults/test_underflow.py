"""Gradients so small that float16 keeps hardly anything of them."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from msprobe_builder.database.read.verdict import Verdict
from tests.faults.judging import SIDE, judged


class Faint(nn.Module):
    """A product of something small, whose weights are given back less than they can hold."""

    def __init__(self, size: float, slope: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.size, self.slope = size, slope
        self.product, self.other = nn.Linear(SIDE, 4 * SIDE), nn.Linear(4 * SIDE, SIDE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.product(x * self.size))
        x = self.other(x * self.slope)
        return x.float().square().sum() * 1e-4


def _judged(folder: Path, size: float, slope: float = 1.0) -> Verdict:
    return judged(folder, Faint(size, slope), Faint(size), torch.autocast("cpu", torch.float16))


@pytest.mark.parametrize("size", [1e-2, 1e-3, 1e-4])
def test_what_underflows_accuses_nobody(tmp_path: Path, size: float) -> None:
    verdict = _judged(tmp_path, size)
    assert [one for one in verdict.suspects if one.strength == "strong"] == []


def test_a_fault_among_faint_gradients_is_found(tmp_path: Path) -> None:
    verdict = _judged(tmp_path, 1e-3, slope=1.5)
    assert verdict.suspects[0].node == "Tensor.__mul__.1.forward"
    assert verdict.suspects[0].strength == "strong"
