"""Two replicas of the NeoX model: plain, with flat shards in the manner of ZeRO 3, or FSDP2."""

# mypy: disable-error-code="union-attr, no-untyped-call, no-any-return, misc, attr-defined"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard

from msprobe_collector import PrecisionDebugger
from tests.collector.recording import write_config
from tests.faults.programs.job import WHOLE
from tests.faults.programs.neox import NeoX, Options, batch
from tests.faults.programs.seat import Seat


class Unit:
    """The parameters of one module as a flat buffer of which each rank keeps a part."""

    def __init__(self, module: nn.Module, members: list[nn.Parameter]) -> None:
        self.members, self.world = members, dist.get_world_size()
        self.size = sum(one.numel() for one in members)
        self.padded = -(-self.size // self.world) * self.world
        flat = torch.zeros(self.padded)
        flat[: self.size] = torch.cat([one.detach().flatten() for one in members])
        self.shard = flat.chunk(self.world)[dist.get_rank()].clone()
        self.shard_grad: Tensor | None = None
        self.reduces = True
        module.register_forward_pre_hook(lambda *_: self.gather())

    def gather(self) -> None:
        flat = torch.empty(self.padded)
        dist.all_gather_into_tensor(flat, self.shard)
        start = 0
        for one in self.members:
            one.data = flat[start : start + one.numel()].view(one.shape)
            start += one.numel()

    def reduce(self) -> None:
        flat = torch.zeros(self.padded)
        torch.cat([one.grad.flatten() for one in self.members], out=flat[: self.size])
        own = torch.empty_like(self.shard)
        dist.reduce_scatter_tensor(own, flat)
        if not self.reduces:
            own = flat.chunk(self.world)[dist.get_rank()] * self.world
        self.shard_grad = own.div_(self.world)
        for one in self.members:
            one.grad = None


@dataclass
class Replica:
    """What a fault may change."""

    model: NeoX
    units: list[Unit]
    rank: int
    rate: float = 0.05


Plant = Callable[[Replica], None]


def work(rank: int, path: str, kind: str, plant: Plant | None) -> None:
    """Record a step of one rank; ``kind`` is plain, zero3, plain_adam or fsdp2."""
    seat, options = Seat(dp=dist.get_world_size()), Options(tied=True)
    model = NeoX(seat, options, WHOLE)
    units: list[Unit] = []
    if kind == "zero3":
        units = units_of(model)
    if kind == "fsdp2":
        for layer in model.layers.values():
            fully_shard(layer, mesh=seat.mesh["dp"])
        fully_shard(model, mesh=seat.mesh["dp"])
    replica = Replica(model, units, rank)
    if plant is not None:
        plant(replica)
    optimizer = None
    if kind in ("plain_adam", "fsdp2"):
        optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    debugger = PrecisionDebugger(config_path=write_config(Path(path)))
    debugger.start(model)
    model(*batch(0, seat, options, False)).backward()
    if kind.startswith("plain"):
        for one in model.parameters():
            dist.all_reduce(one.grad)
            one.grad.div_(seat.dp)
    if optimizer is not None:
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    else:
        update(replica)
    debugger.stop()
    debugger.close()


def units_of(model: NeoX) -> list[Unit]:
    rest: list[nn.Parameter] = []
    units = [Unit(layer, list(layer.parameters())) for layer in model.layers.values()]
    taken = {id(one) for unit in units for one in unit.members}
    for one in model.parameters():
        if id(one) not in taken:
            rest.append(one)
    return [Unit(model, rest), *units]


def update(replica: Replica) -> None:
    """Plain descent, of whole parameters or of shards."""
    with torch.no_grad():
        for unit in replica.units:
            unit.reduce()
            assert unit.shard_grad is not None
            unit.shard.add_(unit.shard_grad, alpha=-replica.rate)
        if not replica.units:
            for one in replica.model.parameters():
                grad: Any = one.grad
                one.add_(grad, alpha=-replica.rate)
