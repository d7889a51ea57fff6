"""Numbers that other calls have put elsewhere, which halves hide, or whole numbers."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from tests.faults.case import HALF, Case
from tests.faults.judging import SIDE, judged
from tests.faults.scoring import score

HIDDEN = [
    # Heads of attention read what belongs to others; the product behind it shows that.
    (Case("shown", "heads_of_other_keys", 1, kind=HALF, seed=2267), "Tensor.repeat."),
    # A transform of another length, behind numbers that were rounded to few.
    (Case("long", "wraps_round", 1, kind=HALF, seed=2288), "Torch.fft_rfft."),
]


@pytest.mark.parametrize(("case", "start"), HIDDEN, ids=lambda value: str(value)[:40])
def test_another_program_is_told_where_numbers_are_open(
    case: Case, start: str, tmp_path: Path
) -> None:
    found = score(case, tmp_path)
    assert found.place == 1
    assert found.verdict.suspects[0].node.startswith(start)
    assert not found.is_strong


def test_a_product_that_one_factor_hardly_explains_is_not_accused(tmp_path: Path) -> None:
    """Rows and columns of places are exchanged: what they turn is off by about a factor of one."""
    found = score(Case("shown", "rows_for_columns", 0, kind=HALF, seed=2260), tmp_path)
    assert not found.is_strong


class Sorted(nn.Module):
    """Rows that are taken by an index, of which the first half is read."""

    def __init__(self, *, by_rest: bool) -> None:
        super().__init__()
        torch.manual_seed(14)
        self.given, self.out = nn.Linear(SIDE, SIDE), nn.Linear(SIDE, SIDE)
        self.by_rest = by_rest

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        order = torch.arange(2 * SIDE)
        row = order % SIDE if self.by_rest else order // 2
        taken = self.given(x[0]).tanh()[row]
        return self.out(taken[:SIDE]).square().mean()


def test_what_made_an_index_otherwise_is_named_and_not_what_goes_by_it(tmp_path: Path) -> None:
    """Both indices hold every number twice, so that no statistic tells them apart."""
    verdict = judged(tmp_path, Sorted(by_rest=True), Sorted(by_rest=False))
    assert verdict.suspects[0].node == "Tensor.__mod__.0.forward"
    assert all("getitem" not in one.node for one in verdict.suspects)
