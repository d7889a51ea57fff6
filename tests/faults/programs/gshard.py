"""Experts in the manner of GShard: places in a buffer for each expert, filled by products.

Two replicas; each has all experts, or the halves of them meet over an exchange. An expert that all
words go through stands beside.
"""

# mypy: disable-error-code="union-attr, no-untyped-call, no-any-return, misc, attr-defined"
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
from tests.faults.programs.job import WHOLE
from tests.faults.programs.neox import INNER, WIDTH, NeoX, Options, batch
from tests.faults.programs.seat import Seat

COUNT = 4
Plant = Callable[[NeoX, int], None]


class AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        out = torch.empty(x.shape)
        dist.all_to_all_single(out, x.contiguous())
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        out = torch.empty(grads[0].shape)
        dist.all_to_all_single(out, grads[0].contiguous())
        return out


class Expert(nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.htoh4, self.h4toh = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)
        with torch.no_grad():
            for one in self.parameters():
                one.copy_(torch.randn(one.shape, generator=generator) * 0.2)

    def forward(self, x: Tensor) -> Tensor:
        return self.h4toh(functional.relu(self.htoh4(x)))


class MOELayer(nn.Module):
    def __init__(self, ep: int, seed: int) -> None:
        super().__init__()
        self.ep, self.room = ep, 12
        local = COUNT // ep
        first = (dist.get_rank() % ep) * local
        self.gate = nn.Linear(WIDTH, COUNT, bias=False)
        self.experts = nn.ModuleList(Expert(seed + first + i) for i in range(local))
        self.shared_expert = Expert(seed + 100)
        self.shared_gate = nn.Linear(WIDTH, 1, bias=False)
        generator = torch.Generator().manual_seed(seed + 200)
        with torch.no_grad():
            for one in (self.gate.weight, self.shared_gate.weight):
                one.copy_(torch.randn(one.shape, generator=generator) * 0.3)

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(0, 1)
        chances = self.gate(flat).softmax(-1)
        chance, chosen = chances.max(-1)
        is_chosen = functional.one_hot(chosen, COUNT)
        turn = (is_chosen.cumsum(0) * is_chosen).sum(-1) - 1
        place = functional.one_hot(turn.clamp(max=self.room - 1), self.room)
        place = place * (turn < self.room)[:, None]
        sends = is_chosen[:, :, None] * place[:, None, :]
        buffer = torch.einsum("sec,sm->ecm", sends.float(), flat)
        buffer = self.through(buffer)
        weights = sends * chance[:, None, None]
        y = torch.einsum("sec,ecm->sm", weights, buffer)
        y = y + torch.sigmoid(self.shared_gate(flat)) * self.shared_expert(flat)
        return y.view_as(x)

    def through(self, buffer: Tensor) -> Tensor:
        if self.ep > 1:
            buffer = AllToAll.apply(buffer)
        buffer = buffer.reshape(self.ep, -1, self.room, WIDTH)
        own = [expert(one) for expert, one in zip(self.experts, buffer.unbind(1), strict=True)]
        buffer = torch.stack(own, 1).flatten(0, 1)
        return AllToAll.apply(buffer) if self.ep > 1 else buffer


def work(rank: int, path: str, ep: int, plant: Plant | None) -> None:
    """Record a step of one rank."""
    seat, options = Seat(dp=2), Options()
    model = NeoX(seat, options, WHOLE)
    for number, layer in enumerate(model.layers.values()):
        if number % 2:
            layer.mlp = MOELayer(ep, 1000 * number)
    if plant is not None:
        plant(model, rank)
    debugger = PrecisionDebugger(config_path=write_config(Path(path)))
    debugger.start(model)
    model(*batch(0, seat, options, False)).backward()
    for name, one in model.named_parameters():
        if ".experts." not in name or ep == 1:
            dist.all_reduce(one.grad)
        one.grad.div_(2)
    debugger.stop()
    debugger.close()
