"""Faults of one rank among several that came with the nineteenth part; see ``ranks``."""

# mypy: disable-error-code="no-untyped-call, no-any-return, misc, no-untyped-def"
# torch is typed in part only.

from __future__ import annotations

import types
from typing import Any

import torch
from torch import nn

from tests.builder.merge.parallel_model import (
    BATCH,
    GPT,
    HEADS,
    HIDDEN,
    INNER,
    LENGTH,
    Attention,
    Ranks,
    Reduce,
)


def _layer(model: GPT, number: int) -> Any:
    return model.layers[number]


def epsilon_of_one(model: GPT, ranks: Ranks) -> None:
    """One rank normalises with a larger epsilon."""
    norm = _layer(model, 1).pre_mlp_layernorm

    def forward(x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(torch.mean(x * x, -1, keepdim=True) + 0.3) * norm.weight

    if ranks.rank == 1:
        norm.forward = forward


def scores_of_one(model: GPT, ranks: Ranks) -> None:
    """One rank scales its scores."""

    def forward(self: Attention, x: torch.Tensor) -> torch.Tensor:
        mixed = self.linear_qkv(x).view(LENGTH, BATCH, self.heads, 3 * HIDDEN // HEADS)
        query, key, value = torch.split(mixed, HIDDEN // HEADS, dim=3)
        query, key, value = (one.permute(1, 2, 0, 3) for one in (query, key, value))
        scores = torch.matmul(query, key.transpose(2, 3)) * 0.5
        context = torch.matmul(torch.softmax(scores, dim=-1), value)
        context = context.permute(2, 0, 1, 3).contiguous()
        return self.linear_proj(context.view(LENGTH, BATCH, -1))

    if ranks.rank == 0:
        attention = _layer(model, 1).self_attention
        attention.forward = types.MethodType(forward, attention)


def gradient_not_summed(model: GPT, _: Ranks) -> None:
    """What each rank gives back to the input of its part is not added up."""
    module = _layer(model, 0).mlp.linear_fc1
    module.forward = lambda x: torch.matmul(x * 1.0, module.weight.t())


def mean_for_sum(model: GPT, ranks: Ranks) -> None:
    """The mean over ranks where their sum belongs."""
    module = _layer(model, 0).self_attention.linear_proj
    module.forward = lambda x: Reduce.apply(torch.matmul(x, module.weight.t()), ranks) / 2


def gate_and_up(model: GPT, ranks: Ranks) -> None:
    """One rank holds the two halves of a fused weight in the other order."""
    if ranks.rank == 1:
        weight = _layer(model, 1).mlp.linear_fc1.weight
        with torch.no_grad():
            weight.copy_(weight.roll(INNER // ranks.tp, 0))


def words_of_one(model: GPT, ranks: Ranks) -> None:
    """One rank is given other words."""
    if ranks.rank == 1:
        embedding: Any = model.embedding
        usual = embedding.forward
        embedding.forward = lambda words: usual(words.flip(0))


def arrives_in_half_precision(model: Any, ranks: Ranks) -> None:
    """What the second stage is given was cast on the way."""
    if ranks.stage == 1:
        usual = model.forward
        model.forward = lambda x: usual(x.bfloat16().float())


def last_norm_left_out(model: Any, ranks: Ranks) -> None:
    """The last stage goes without the norm before the head."""
    if ranks.stage == 1:
        model.norm = nn.Identity()
