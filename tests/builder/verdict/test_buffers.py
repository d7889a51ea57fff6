"""What a module writes to its buffers is a result as well, though its outputs agree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.builder.verdict.live_modules import verdict_of

Write = Callable[[Tensor, Tensor, bool], object]  # of a buffer, an input, and whether it is wrong


class Kept(nn.Module):
    """Puts out the same whatever it keeps."""

    def __init__(self, write: Write, wrong: bool) -> None:
        super().__init__()
        self.write, self.wrong = write, wrong
        self.kept: Tensor
        self.register_buffer("kept", torch.linspace(0.5, 2.0, 16))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.sin(x)
        with torch.no_grad():
            self.write(self.kept, x.mean(0), self.wrong)
        return torch.tanh(y)


class Net(nn.Module):
    def __init__(self, write: Write, wrong: bool) -> None:
        super().__init__()
        self.inner = Kept(write, wrong)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.inner(x.mul(1.5))
        return y.square().sum(-1)


def unsmoothed(kept: Tensor, x: Tensor, wrong: bool) -> object:
    counts = x.abs()
    return kept.copy_(kept / (counts if wrong else (counts + 0.01) * 1.01))


def averaged(kept: Tensor, x: Tensor, wrong: bool) -> object:
    return kept.mul_(0.9).add_(x.square() if wrong else x.square().mul(0.1))


def slower(kept: Tensor, x: Tensor, wrong: bool) -> object:
    return kept.lerp_(x, 0.01 if wrong else 0.1)


def set_in_part(kept: Tensor, x: Tensor, wrong: bool) -> object:
    kept[:8] = x[:8].abs() if wrong else x[:8].abs().sqrt()
    return kept


def spelled_otherwise(kept: Tensor, x: Tensor, wrong: bool) -> object:
    return kept.copy_(kept * 0.9 + x * 0.1 if wrong else kept - (kept - x) * 0.1)


def kept_elsewhere(kept: Tensor, x: Tensor, wrong: bool) -> object:
    return kept.clone().add_(x.exp() if wrong else x.exp().mul(1.1))


@pytest.mark.parametrize(
    ("write", "culprits"),
    [
        (unsmoothed, {"Tensor.__add__.0.forward", "Tensor.__mul__.0.forward"}),
        (averaged, {"Tensor.mul.1.forward"}),
        (slower, {"Tensor.lerp_.0.forward"}),
        (set_in_part, {"Tensor.sqrt.0.forward"}),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_buffer_that_is_left_otherwise_tells(
    write: Write, culprits: set[str], tmp_path: Path
) -> None:
    verdict = verdict_of(tmp_path, lambda debug: Net(write, debug), (4, 16))
    assert verdict.conclusion == "fault", verdict.sentence
    first = verdict.suspects[0]
    assert first.node in culprits or "Tensor.__truediv__" in first.node, first


@pytest.mark.parametrize("write", [spelled_otherwise, kept_elsewhere])
def test_what_nobody_keeps_or_is_the_same_is_not_accused(write: Write, tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, lambda debug: Net(write, debug), (4, 16))
    assert not [one for one in verdict.suspects if one.strength == "strong"], verdict.sentence
