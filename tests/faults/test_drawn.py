"""With another seed other numbers are drawn; what draws none is at fault where it differs."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from tests.faults.judging import SIDE, WrongKernel, judged

Way = Callable[[nn.Module, Tensor], Tensor]


class Drawing(nn.Module):
    """One call that may draw, between two layers."""

    def __init__(self, way: Way, seed: int) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.given, self.out = nn.Linear(SIDE, SIDE), nn.Linear(SIDE, SIDE)
        self.recurrent = nn.GRU(SIDE, SIDE, 2, dropout=0.3)
        self.undropped = nn.LSTM(SIDE, SIDE, 2)
        self.heads = nn.MultiheadAttention(SIDE, 2, dropout=0.3)
        self.way, self.seed = way, seed

    def forward(self, x: Tensor) -> Tensor:
        torch.manual_seed(self.seed)
        return self.out(self.way(self, torch.relu(self.given(x)))).square().mean()


def attention(x: Tensor, dropout: float) -> Tensor:
    return F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=dropout)[0]


DRAWN: dict[str, tuple[str, Way]] = {
    "dropout of channels": ("Functional.dropout1d", lambda _, x: F.dropout1d(x, 0.4, True)),
    "alpha": ("Functional.alpha_dropout", lambda _, x: F.alpha_dropout(x, 0.3, True)),
    "native": ("Torch.native_dropout", lambda _, x: torch.native_dropout(x, 0.3, True)[0]),
    "bernoulli": ("Torch.bernoulli", lambda _, x: x * torch.bernoulli(torch.full_like(x, 0.6))),
    "in place": ("Tensor.bernoulli_", lambda _, x: x * torch.zeros_like(x).bernoulli_(0.6)),
    "whole numbers": ("Tensor.random_", lambda _, x: x * torch.zeros_like(x).random_(1, 99)),
    "normal": ("Tensor.normal_", lambda _, x: x + torch.zeros_like(x).normal_(std=0.5)),
    "exponential": ("Tensor.exponential_", lambda _, x: x * torch.ones_like(x).exponential_()),
    "poisson": ("Torch.poisson", lambda _, x: x * torch.poisson(x.detach().abs() + 3.0)),
    "slopes": ("Functional.rrelu", lambda _, x: F.rrelu(x - 1.0, 0.1, 0.9, True)),
    "of categories": ("Functional.gumbel_softmax", lambda _, x: F.gumbel_softmax(x, dim=-1)),
    "attention": ("Functional.scaled_dot_product_attention", lambda _, x: attention(x, 0.3)),
    "heads": (
        "Functional.multi_head_attention_forward",
        lambda model, x: model.heads(x, x, x)[0],  # type: ignore[operator]
    ),
    "between layers": ("VF.gru", lambda model, x: model.recurrent(x)[0]),  # type: ignore[operator]
}


@pytest.mark.parametrize("way", list(DRAWN))
def test_another_seed_is_no_fault(way: str, tmp_path: Path) -> None:
    stem, call = DRAWN[way]
    verdict = judged(tmp_path, Drawing(call, 1), Drawing(call, 2))
    first = verdict.suspects[0]
    assert (verdict.conclusion, first.strength) == ("undecided", "weak")
    assert first.node == f"{stem}.0.forward"
    assert "seed both runs alike" in first.evidence


NOT_DRAWN: dict[str, tuple[str, str, Way]] = {
    "attention": (
        "Functional.scaled_dot_product_attention",
        "_scaled_dot_product_flash_attention_for_cpu.default",
        lambda _, x: attention(x, 0.0),
    ),
    "outside of training": (
        "Torch.native_dropout",
        "native_dropout.default",
        lambda _, x: torch.native_dropout(x, 0.4, False)[0],
    ),
    "slopes": (
        "Functional.rrelu",
        "rrelu_with_noise.default",
        lambda _, x: F.rrelu(x - 1.0, 0.1, 0.9, False),
    ),
    "between layers": (
        "VF.lstm",
        "mkldnn_rnn_layer.default tanh.default",
        lambda model, x: model.undropped(x)[0],  # type: ignore[operator]
    ),
}


@pytest.mark.parametrize("way", list(NOT_DRAWN))
def test_what_draws_nothing_excuses_nothing(way: str, tmp_path: Path) -> None:
    stem, kernel, call = NOT_DRAWN[way]

    def wrong(name: str, result: Any) -> Any:
        if name not in kernel.split():
            return result
        return (result[0] * 1.5, *result[1:]) if isinstance(result, tuple) else result * 1.5

    verdict = judged(tmp_path, Drawing(call, 1), Drawing(call, 2), WrongKernel(wrong))
    assert (verdict.conclusion, verdict.suspects[0].strength) == ("fault", "strong")
    assert verdict.suspects[0].node == f"{stem}.0.forward"
