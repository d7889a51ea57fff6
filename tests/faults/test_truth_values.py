"""Comparisons that one side makes otherwise: truth values have statistics that tell nothing."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from tests.faults.judging import SIDE, judged


class Passed(nn.Module):
    """Counts which levels were reached, or passed."""

    def __init__(self, *, included: bool = False) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.included = included
        self.product = nn.Linear(SIDE, SIDE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        levels = torch.arange(SIDE)
        reached = torch.tensor([2, 5, 6])[:, None]
        passed = reached >= levels if self.included else reached > levels
        return (self.product(x) * passed.float()[:, None]).square().mean()


def test_the_comparison_is_named_and_not_the_cast_of_what_it_puts_out(tmp_path: Path) -> None:
    verdict = judged(tmp_path, Passed(included=True), Passed())
    first = verdict.suspects[0]
    assert first.node in ("Tensor.__ge__.0.forward", "Tensor.__gt__.0.forward")
    assert first.cause in ("extra", "missing")
    cast = [one.strength for one in verdict.suspects if one.node.startswith("Tensor.float")]
    assert "strong" not in cast


class Near(nn.Module):
    """Scores that see what lies little behind, and the first of all."""

    def __init__(self, *, included: bool = False) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.included = included
        self.given = nn.Linear(SIDE, SIDE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        at = torch.arange(SIDE)
        back = at[:, None] - at
        near = (back >= 0) & ((back <= 2) if self.included else (back < 2))
        seen = near | ((at == 0) & (back >= 0))
        scores = self.given(x).masked_fill(~seen, -torch.inf)
        return scores.softmax(-1).square().mean()


def test_a_comparison_is_named_through_what_truth_values_are_joined_with(tmp_path: Path) -> None:
    """All masks of a shape look alike: the softmax behind them is not accused."""
    verdict = judged(tmp_path, Near(included=True), Near())
    first = verdict.suspects[0]
    assert first.node.startswith(("Tensor.__le__.", "Tensor.__lt__."))
    assert first.cause in ("extra", "missing")
    assert all("softmax" not in one.node for one in verdict.suspects)
