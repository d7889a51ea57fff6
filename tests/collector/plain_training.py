"""A small training on two ranks, and what it computes without any framework around it."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tests.collector.test_monitor import Rows

STEPS, MICRO, WORDS, CLIP = 3, 2, 23, 0.05
Steps = list[dict[tuple[str, str], torch.Tensor]]


class Model(nn.Module):
    """Sizes that no number of ranks divides."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(WORDS, 7)
        self.norm = nn.LayerNorm(7)
        self.gate, self.up = nn.Linear(7, 11), nn.Linear(7, 11, bias=False)
        self.head = nn.Linear(11, WORDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        inner = self.norm(self.embed(words))
        logits: torch.Tensor = self.head(nn.functional.silu(self.gate(inner)) * self.up(inner))
        return logits


def data(rank: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rank)
    return torch.randint(0, WORDS, (STEPS, MICRO, 3, 5), generator=generator)


def loss_of(model: nn.Module, words: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(words).flatten(0, 1), words.flatten())


def hooks_of(model: nn.Module) -> list[int]:
    found = [len(one._forward_hooks) + len(one._forward_pre_hooks) for one in model.modules()]
    return found + [len(one._post_accumulate_grad_hooks or {}) for one in model.parameters()]


def train_plainly(
    groups: Callable[[nn.Module], Any], dtype: torch.dtype = torch.float32
) -> tuple[Steps, list[Steps]]:
    """Of each step what all ranks have together; and of each rank its own gradients.

    Weights are kept in float32, and gradients are summed so.
    """
    model, main = Model().to(dtype), Model().to(dtype).float()
    optimizer = torch.optim.AdamW(groups(main), lr=0.01)
    whole: Steps = []
    local: list[Steps] = [[], []]
    for step in range(STEPS):
        seen = {("weight", name): one.detach().clone() for name, one in model.named_parameters()}
        for rank in range(2):
            own = {("all", name): torch.zeros_like(one) for name, one in main.named_parameters()}
            for words in data(rank)[step]:
                model.zero_grad()
                (loss_of(model, words) / MICRO).backward()
                for name, one in model.named_parameters():
                    assert one.grad is not None
                    own["all", name] += one.grad.float()
                    own["last", name] = one.grad.float()
            local[rank].append(own)
        for name, one in main.named_parameters():
            one.grad = (local[0][step]["all", name] + local[1][step]["all", name]) / 2
        nn.utils.clip_grad_norm_(main.parameters(), CLIP)
        for name, one in main.named_parameters():
            assert one.grad is not None
            seen["gradient", name] = one.grad.clone()
        optimizer.step()
        for name, one in main.named_parameters():
            seen["optimizer_state", f"{name}:exp_avg"] = optimizer.state[one]["exp_avg"].clone()
        with torch.no_grad():
            for low, one in zip(model.parameters(), main.parameters(), strict=True):
                low.copy_(one)
        whole.append(seen)
    return whole, local


def together(parts: list[Rows], step: int, kind: str, name: str) -> tuple[float, float, float]:
    """Norm, sum and number of what the ranks hold."""
    found = [part[step, kind, name] for part in parts if (step, kind, name) in part]
    norm = math.hypot(*(one["norm"] for one in found))
    total = sum(one["mean"] * one["count"] for one in found)
    return norm, total, sum(one["count"] for one in found)


def summary(directory: Path, rank: int, step: int) -> dict[str, dict[str, str]]:
    path = directory / "dump" / f"rank{rank}" / f"grad_summary_{step}.csv"
    with path.open(encoding="utf-8-sig", newline="") as file:
        return {row["param_name"]: row for row in csv.DictReader(file)}
