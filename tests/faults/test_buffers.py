"""Buffers: one that is not kept up to date, one that holds something else; and sums of uses."""

# mypy: disable-error-code="no-untyped-call, no-any-return, operator, arg-type"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.judging import SIDE, judged


class Queued(nn.Module):
    """What is kept is written to behind one module, and read behind the next."""

    def __init__(self, *, keeps: bool) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.made = nn.Linear(SIDE, SIDE)
        self.register_buffer("queue", torch.randn(SIDE, SIDE))
        self.keeps = keeps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = x.new_zeros(())
        for turn in range(2):
            seen = self.made(x + turn).tanh()
            total = total + (seen @ self.queue.detach().clone().t()).square().mean()
            if self.keeps:
                with torch.no_grad():
                    self.queue[:3] = 3.5
        return total


@pytest.mark.parametrize("side", ["npu", "bench"])
def test_what_was_written_to_on_one_side_alone_is_stale_on_the_other(
    side: str, tmp_path: Path
) -> None:
    verdict = judged(tmp_path, Queued(keeps=side == "npu"), Queued(keeps=side == "bench"))
    first = verdict.suspects[0]
    assert (first.side, first.strength) == (side, "strong")
    assert first.node == "Tensor.__setitem__.0.forward"


class Kernel(nn.Module):
    def __init__(self, kernel: list[float]) -> None:
        super().__init__()
        self.register_buffer("kernel", torch.tensor(kernel).expand(SIDE, 1, 3).contiguous())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.conv1d(x.tanh().relu(), self.kernel, groups=SIDE)


class Smoothing(nn.Module):
    """A fixed kernel, which is no parameter and comes from no call."""

    def __init__(self, kernel: list[float]) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.weight = nn.Parameter(torch.randn(SIDE, SIDE))
        self.smoothed = Kernel(kernel)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.smoothed(x @ self.weight).square().mean()


def test_the_call_that_is_given_another_buffer_is_named(tmp_path: Path) -> None:
    verdict = judged(tmp_path, Smoothing([1.0, 1.0, 1.0]), Smoothing([1.0, 2.0, 1.0]))
    first = verdict.suspects[0]
    assert (first.node, first.strength) == ("Functional.conv1d.0.forward", "strong")
    assert "another buffer or constant was given" in first.evidence


class Twice(nn.Module):
    """One module is used twice; the loss of its first use may be weighed otherwise."""

    def __init__(self, weight: float) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.used = nn.Linear(SIDE, SIDE)
        self.weight = weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.used(x)
        second = self.used(first.detach().tanh())
        return self.weight * first.square().mean() + second.square().mean()


def test_of_modules_alone_a_gradient_that_sums_up_two_uses_accuses_neither(tmp_path: Path) -> None:
    """It stands at the use that comes first in the backward pass, whose own part is right."""
    verdict = judged(tmp_path, Twice(3.0), Twice(1.0), level="L0")
    assert [(one.node, one.cause) for one in verdict.suspects] == [
        ("Module.used.Linear.backward.0", "unrecorded")
    ]
