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
