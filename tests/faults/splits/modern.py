"""A step of a modern decoder (latent.py), split over ranks, and what its stages send."""

# mypy: disable-error-code="no-untyped-call, no-any-return, misc, no-untyped-def"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from msprobe_collector import PrecisionDebugger
from tests.collector.recording import write_config
from tests.faults.splits.latent import Modern
from tests.faults.splits.plan import BATCH, HIDDEN, LENGTH, WORDS, Plan, Ranks

# Of the model of a rank.
Plant = Callable[[nn.Module, int], None]
# Weights whose gradient is of a slice of the sequence on each rank.
_OF_SLICES = ("before", "after", "last", "down.weight", "norm", "router", "of_words", "of_rest")


def train(rank: int, path: str, plan: Plan, task: str, plant: Plant | None) -> None:
    """Record a step of one rank: all passes forward, then all back, then what is summed up."""
    ranks = Ranks(rank, plan)
    model = Modern(ranks, plan)
    if plant is not None:
        plant(model, rank)
    debugger = PrecisionDebugger(config_path=write_config(Path(path), task=task, level="mix"))
    debugger.start(model)
    passes = [_forward(model, ranks, _batch(plan, ranks, one)) for one in range(plan.micro_batches)]
    for x, y in passes:
        _backward(model, ranks, x, y)
    _reduce(model, ranks, plan)
    debugger.stop()
    debugger.close()


def _batch(plan: Plan, ranks: Ranks, number: int) -> Tensor:
    seed = 300 + number * plan.dp + ranks.at["dp"]
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, WORDS, (BATCH, LENGTH + 2), generator=generator)


def _forward(model: Modern, ranks: Ranks, words: Tensor) -> tuple[Tensor, Tensor]:
    plan, stages = ranks.plan, ranks.members["pp"]
    own, following, behind = (words[:, one : one + LENGTH] for one in range(3))
    x = own
    if not model.is_first:
        length = LENGTH // plan.tp if plan.is_sequence else LENGTH
        x = torch.empty(BATCH, length, HIDDEN)
        dist.recv(x, stages[ranks.at["pp"] - 1])
        x.requires_grad_()
    y = model(x, following)
    if not model.is_last:
        dist.send(y.detach(), stages[ranks.at["pp"] + 1])
        return x, y
    loss = _loss(y[0], following)
    if len(y) > 1:
        loss = loss + 0.3 * _loss(y[1], behind)
    return x, loss / plan.micro_batches


def _loss(scores: Tensor, wanted: Tensor) -> Tensor:
    return functional.cross_entropy(scores.flatten(0, 1), wanted.flatten())


def _backward(model: Modern, ranks: Ranks, x: Tensor, y: Tensor) -> None:
    stages = ranks.members["pp"]
    if model.is_last:
        y.backward()
    else:
        gradient = torch.empty_like(y)
        dist.recv(gradient, stages[ranks.at["pp"] + 1])
        y.backward(gradient)
    if not model.is_first and x.grad is not None:
        dist.send(x.grad, stages[ranks.at["pp"] - 1])


def _reduce(model: Modern, ranks: Ranks, plan: Plan) -> None:
    """Gradients of slices are summed, and those of words that two stages hold."""
    if plan.is_sequence and ranks.groups["tp"] is not None:
        for name, parameter in model.named_parameters():
            if _is_of_slices(name):
                dist.all_reduce(parameter.grad, group=ranks.groups["tp"])
    if plan.is_ahead and plan.pp > 1 and model.words is not None:
        dist.all_reduce(model.words.weight.grad, group=ranks.groups["pp"])


def _is_of_slices(name: str) -> bool:
    if ".experts." in name or ".feed.down" in name:
        return False
    return name.endswith("join.weight") or any(one in name for one in _OF_SLICES)


def changed(rank: int, path: str, change: Callable[[Any], None]) -> Plant:
    """Change what ``path`` names on one rank."""

    def plant(model: nn.Module, own: int) -> None:
        value: Any = model
        if own == rank:
            for part in path.split("."):
                value = getattr(value, part)
            change(value)

    return plant
