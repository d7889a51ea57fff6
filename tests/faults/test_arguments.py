"""Arguments that one program gives and the other one leaves to their default."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.judging import SIDE, judged


class Bent(nn.Module):
    """One call between two layers."""

    def __init__(self, call: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype) -> None:
        super().__init__()
        torch.manual_seed(36)
        self.given, self.out = nn.Linear(SIDE, SIDE), nn.Linear(SIDE, SIDE)
        self.to(dtype)
        self.call, self.dtype = call, dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.call(self.given(x.to(self.dtype)))).float().square().mean()


_DIFFERENT: dict[str, tuple[Callable[..., Any], Callable[..., Any], str]] = {
    "by keyword": (
        lambda x: F.gelu(x, approximate="tanh"),
        lambda x: F.gelu(x),
        "Argument approximate is tanh, in the reference none.",
    ),
    "in the reference": (
        lambda x: F.layer_norm(x, (SIDE,)),
        lambda x: F.layer_norm(x, (SIDE,), eps=1e-6),
        "Argument eps is 1e-05, in the reference 1e-06.",
    ),
    "by place and by keyword": (
        lambda x: F.softplus(x, 1, 19),
        lambda x: F.softplus(x, threshold=18),
        "Argument threshold is 19, in the reference 18.",
    ),
}


@pytest.mark.parametrize("way", list(_DIFFERENT))
def test_an_argument_that_one_side_alone_gives_is_evidence(way: str, tmp_path: Path) -> None:
    """In bfloat16 its effect is below rounding: nothing else would tell."""
    ours, theirs, told = _DIFFERENT[way]
    verdict = judged(tmp_path, Bent(ours, torch.bfloat16), Bent(theirs, torch.float32))
    first = verdict.suspects[0]
    assert first.cause == "argument"
    assert first.strength == "weak"
    assert told in first.evidence
    assert verdict.conclusion == "undecided"


_EQUAL: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "the default": (lambda x: F.gelu(x, approximate="none"), lambda x: F.gelu(x)),
    "two ways": (lambda x: F.leaky_relu(x, 0.2), lambda x: F.leaky_relu(x, negative_slope=0.2)),
    "a tensor": (
        lambda x: torch.clamp(x, min=torch.zeros((), dtype=x.dtype)),
        lambda x: torch.clamp(x, min=0.0),
    ),
    "nothing": (lambda x: torch.clamp(x, -9.0, None), lambda x: x.clamp(min=-9.0)),
}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("way", list(_EQUAL))
def test_the_same_in_other_words_is_no_evidence(way: str, turned: bool, tmp_path: Path) -> None:
    ours, theirs = reversed(_EQUAL[way]) if turned else _EQUAL[way]
    verdict = judged(tmp_path, Bent(ours, torch.float32), Bent(theirs, torch.float32))
    assert verdict.conclusion == "clean"
    assert not verdict.suspects


class Joined(nn.Module):
    """Two parts of unequal width behind one another, in either order."""

    def __init__(self, *, turned: bool) -> None:
        super().__init__()
        torch.manual_seed(37)
        self.wide, self.narrow = nn.Linear(SIDE, 2 * SIDE), nn.Linear(SIDE, SIDE)
        self.out = nn.Linear(3 * SIDE, SIDE)
        self.turned = turned

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [self.wide(x), torch.tanh(self.narrow(x))]
        return self.out(torch.cat(parts[::-1] if self.turned else parts, dim=-1)).square().mean()


@pytest.mark.parametrize("turned", [False, True])
def test_parts_that_are_joined_in_another_order_are_found_where_they_are(
    turned: bool, tmp_path: Path
) -> None:
    """What is joined has the same statistics; the layer behind it, which shows it, is right."""
    verdict = judged(tmp_path, Joined(turned=turned), Joined(turned=not turned))
    first = verdict.suspects[0]
    assert first.node == "Torch.cat.0.forward"
    assert first.strength == "strong"
    wide, narrow = f"[3, {SIDE}, {2 * SIDE}]", f"[3, {SIDE}, {SIDE}]"
    ours, theirs = (narrow, wide) if turned else (wide, narrow)
    told = f"Argument tensors is {ours}, {theirs}, in the reference {theirs}, {ours}."
    assert told in first.evidence


class Reduced(nn.Module):
    """Means over some dimensions."""

    def __init__(self, *dimensions: int) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.weight = nn.Parameter(torch.randn(SIDE, SIDE))
        self.dimensions = dimensions

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = (x @ self.weight).tanh()
        share = torch.sigmoid(made.mean(self.dimensions, keepdim=True) * 3)
        return (made * share).square().mean()


def test_a_dimension_that_is_left_out_is_an_argument_that_differs(tmp_path: Path) -> None:
    first = judged(tmp_path, Reduced(1), Reduced(1, 2)).suspects[0]
    assert (first.node, first.strength) == ("Tensor.mean.0.forward", "strong")
    assert "Argument 1 is 1, in the reference 1, 2." in first.evidence


class Turning(nn.Module):
    """Puts what it is given elsewhere, which no statistic of it shows."""

    def __init__(self, turn: int) -> None:
        super().__init__()
        self.turn = turn

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.roll(self.turn, -1)


class Summed(nn.Module):
    """A loss."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.square().mean()


def test_an_argument_inside_of_a_module_is_named_where_it_shows_outside(tmp_path: Path) -> None:
    def model(turn: int) -> nn.Module:
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(SIDE, SIDE), Turning(turn), nn.Linear(SIDE, SIDE), Summed())

    first = judged(tmp_path, model(3), model(2)).suspects[0]
    assert (first.node, first.cause) == ("Tensor.roll.0.forward", "argument")
