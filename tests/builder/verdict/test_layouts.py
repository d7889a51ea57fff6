"""A dimension that is taken of a tensor of another shape follows from what gave it that shape."""

# mypy: disable-error-code="no-untyped-call"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.builder.verdict.live_modules import verdict_of

Step = Callable[[Tensor, bool], Tensor]


def first_of_three(x: Tensor, wrong: bool) -> Tensor:
    x = x.view(2, 8, 3, 4, 10) if wrong else x.view(2, 8, 4, 3, 10)
    return x.unbind(2 if wrong else 3)[0]


def chosen(x: Tensor, wrong: bool) -> Tensor:
    x = x.reshape(2, 8, 3, 4, 10) if wrong else x.reshape(2, 8, 4, 3, 10)
    return x.select(2 if wrong else 3, 1)


def unfolded(x: Tensor, wrong: bool) -> Tensor:
    x = x.unflatten(-1, (3, 40)) if wrong else x.unflatten(-1, (40, 3))
    return x.amax(2 if wrong else 3)


def added_up(x: Tensor, wrong: bool) -> Tensor:
    x = x.view(2, 8, 12, 10) if wrong else x.view(2, 8, 10, 12)
    return torch.sum(x, 2 if wrong else 3)


def halved(x: Tensor, wrong: bool) -> Tensor:
    x = x.view(2, 8, 2, 60) if wrong else x.view(2, 8, 60, 2)
    return torch.chunk(x.tanh(), 2, 2 if wrong else 3)[0].reshape(2, 8, 60)


def other_dimension(x: Tensor, wrong: bool) -> Tensor:
    return torch.sum(x.view(2, 8, 10, 12).tanh(), 1 if wrong else 2).reshape(-1)[:160]


class Net(nn.Module):
    def __init__(self, step: Step, wrong: bool) -> None:
        super().__init__()
        self.step, self.wrong = step, wrong

    def forward(self, x: Tensor) -> Tensor:
        y = self.step(x.mul(1.5), self.wrong)
        for _ in range(4):
            y = y.mul(1.25).sin()
        return y


@pytest.mark.parametrize(
    ("step", "culprit"),
    [
        (first_of_three, "Tensor.view.0.forward"),
        (chosen, "Tensor.reshape.0.forward"),
        (unfolded, "Tensor.unflatten.0.forward"),
        (added_up, "Tensor.view.0.forward"),
        (halved, "Tensor.view.0.forward"),
        (other_dimension, "Torch.sum.0.forward"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_the_call_that_lays_it_out_otherwise_comes_first(
    step: Step, culprit: str, tmp_path: Path
) -> None:
    verdict = verdict_of(tmp_path, lambda debug: Net(step, debug), (2, 8, 120))
    [first, *_] = verdict.suspects
    assert (first.node, first.strength) == (culprit, "strong")
