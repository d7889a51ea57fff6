"""Numbers next to nothing that are divided by, and those that stand right at a limit."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from tests.faults.judging import SIDE, judged
from tests.faults.noise import RelativeNoise


class Apart(nn.Module):
    """How far each row is from the next; two of them are nearly the same."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(11)
        self.made = nn.Linear(SIDE, SIDE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        near = torch.cat([x[0, :1] + 1e-3, x[0]])
        y = self.made(near).mul(100.0).tanh().add(50.0)
        square = (y[1:] - y[:-1]).square().sum(-1)
        return (square + 1e-9).sqrt().mean()


class Kept(nn.Module):
    """Whole numbers up to a limit are kept, as kernels of a coarse type do."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(12)
        self.made = nn.Linear(SIDE, SIDE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.made(x)
        level = torch.round(y.detach() * 4)
        kept = (level >= -2) & (level <= 2)
        return (y * kept.to(y.dtype)).square().mean()


def test_the_slope_of_a_root_next_to_nothing_is_nobodys_fault(tmp_path: Path) -> None:
    verdict = judged(tmp_path, Apart(), Apart(), RelativeNoise(1e-6, 4))
    assert verdict.conclusion != "fault"
    assert all(one.strength != "strong" for one in verdict.suspects)


def test_what_chance_keeps_at_a_limit_is_nobodys_fault(tmp_path: Path) -> None:
    verdict = judged(tmp_path, Kept(), Kept(), RelativeNoise(1e-6, 4))
    assert verdict.conclusion != "fault"
    assert all(one.strength != "strong" for one in verdict.suspects)
