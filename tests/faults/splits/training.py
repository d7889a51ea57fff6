"""A step of a split training, recorded on every rank."""

# mypy: disable-error-code="no-untyped-call, no-any-return, misc, no-untyped-def"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional

from msprobe_collector import PrecisionDebugger
from tests.collector.recording import write_config
from tests.faults.splits.model import Decoder, length_of
from tests.faults.splits.plan import BATCH, HIDDEN, LENGTH, WORDS, Plan, Ranks


@dataclass
class Knobs:
    """What a training script does besides running the model; faults change it on one rank."""

    loss_weight: float = 1.0
    averages: bool = True
    sums: bool = True
    steps: bool = True
    rate: float = 0.01
    decay: float = 0.01


Plant = Callable[[list[Decoder], Ranks, Knobs], None]


class Training:
    def __init__(self, rank: int, plan: Plan, plant: Plant | None) -> None:
        self.plan, self.ranks, self.knobs = plan, Ranks(rank, plan), Knobs()
        stage = self.ranks.at["pp"]
        self.chunks = [
            Decoder(self.ranks, chunk * plan.pp + stage, plan) for chunk in range(plan.vpp)
        ]
        if plan.is_half:
            for chunk in self.chunks:
                chunk.to(torch.bfloat16)
        if plant is not None:
            plant(self.chunks, self.ranks, self.knobs)
        self.dtype = torch.bfloat16 if plan.is_half else torch.float32
        parameters = [one for chunk in self.chunks for one in chunk.parameters()]
        self.parameters = list(dict.fromkeys(parameters))
        rate, decay = self.knobs.rate, self.knobs.decay
        self.optimizer: Any = None
        if plan.optimizer == "adamw":
            self.optimizer = torch.optim.AdamW(self.parameters, rate, weight_decay=decay)
        elif plan.optimizer == "sgd":
            self.optimizer = torch.optim.SGD(self.parameters, rate, foreach=False)

    def step(self, number: int) -> None:
        plan = self.plan
        batches = [self._batch(number * plan.micro_batches + i) for i in range(plan.micro_batches)]
        passes = [self._forward(words, wanted) for words, wanted in batches]
        for one in passes:
            self._backward(one)
        self._reduce()
        if self.optimizer is not None and self.knobs.steps:
            self.optimizer.step()
        for parameter in self.parameters:
            parameter.grad = None

    def _batch(self, number: int) -> tuple[Tensor, Tensor]:
        plan = self.plan
        first = 100 + (number * plan.dp + self.ranks.at["dp"]) * plan.joined
        parts = [
            torch.randint(
                0, WORDS, (BATCH, LENGTH + 1), generator=torch.Generator().manual_seed(seed)
            )
            for seed in range(first, first + plan.joined)
        ]
        words = torch.cat(parts)
        words, wanted = words[:, :-1], words[:, 1:]
        return self.ranks.cut(words, 1, "cp"), self.ranks.cut(wanted, 1, "cp")

    def _peer(self, flow: int) -> int:
        return self.ranks.members["pp"][flow % self.plan.pp]

    def _forward(self, words: Tensor, wanted: Tensor) -> list[tuple[int, Tensor, Tensor]]:
        plan, stage, last = self.plan, self.ranks.at["pp"], self.plan.pp * self.plan.vpp - 1
        result = []
        for chunk, model in enumerate(self.chunks):
            flow = chunk * plan.pp + stage
            x = words
            if flow > 0:
                x = torch.empty(BATCH, length_of(plan), HIDDEN, dtype=self.dtype)
                if plan.pp > 1:
                    dist.recv(x, self._peer(flow - 1))
                x.requires_grad_()
            y = model(x)
            if flow < last:
                dist.send(y.detach(), self._peer(flow + 1))
            else:
                y = self._loss(y, wanted)
            result.append((flow, x, y))
        return result

    def _loss(self, scores: Tensor, wanted: Tensor) -> Tensor:
        loss = functional.cross_entropy(scores.float().flatten(0, 1), wanted.flatten())
        weight = self.knobs.loss_weight / self.plan.micro_batches
        return loss * weight

    def _backward(self, passes: list[tuple[int, Tensor, Tensor]]) -> None:
        last = self.plan.pp * self.plan.vpp - 1
        for flow, x, y in reversed(passes):
            if flow < last:
                gradient = torch.empty_like(y)
                dist.recv(gradient, self._peer(flow + 1))
                y.backward(gradient)
            else:
                y.backward()
            if flow > 0 and x.grad is not None:
                dist.send(x.grad, self._peer(flow - 1))

    def _reduce(self) -> None:
        """Gradients are averaged over all that have other tokens."""
        plan, ranks = self.plan, self.ranks
        experts = {
            id(one)
            for chunk in self.chunks
            for name, one in chunk.named_parameters()
            if ".experts." in name
        }
        if plan.is_tied and plan.pp > 1:
            self._tie()
        for parameter in self.parameters:
            own = "edp" if id(parameter) in experts else "data"
            if parameter.grad is None:
                continue
            if ranks.groups[own] is not None and self.knobs.sums:
                dist.all_reduce(parameter.grad, group=ranks.groups[own])
            if self.knobs.averages and plan.dp * plan.cp > 1:
                parameter.grad /= plan.dp * plan.cp

    def _tie(self) -> None:
        if self.plan.pp != 2:
            raise ValueError("tied weights need two stages here")
        model = self.chunks[0]
        shared: Any = model.words if model.words is not None else model.head.scores  # type: ignore[union-attr]
        dist.all_reduce(shared.weight.grad, group=self.ranks.groups["pp"])


def train(rank: int, path: str, plan: Plan, plant: Plant | None) -> None:
    """Record the steps of one rank."""
    training = Training(rank, plan, plant)
    content: dict[str, Any] = {
        "task": "statistics",
        "level": "mix",
        "step": list(range(plan.steps)),
    }
    debugger = PrecisionDebugger(config_path=write_config(Path(path), **content))
    for number in range(plan.steps):
        debugger.start(training.chunks if plan.vpp > 1 else training.chunks[0])
        training.step(number)
        debugger.stop()
        debugger.step()
    debugger.close()
