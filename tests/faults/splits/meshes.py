"""Stages whose layers PyTorch cuts (DTensor) and shards over replicas (FSDP2)."""

# mypy: disable-error-code="no-untyped-call, no-any-return, misc, no-untyped-def"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional

from msprobe_collector import PrecisionDebugger
from tests.collector.recording import write_config
from tests.faults.splits.modern import Plant
from tests.faults.splits.native import LENGTH, SIZE, WORDS
from tests.faults.splits.pipelines import Part
from tests.faults.splits.plan import Plan

ROWS, BATCHES = 2, 2


def train(rank: int, path: str, plan: Plan, task: str, plant: Plant | None) -> None:
    """Record a step of one rank, whose number counts tp, then dp, then pp."""
    stage, replica = rank // (plan.tp * plan.dp), rank // plan.tp % plan.dp
    part = Part(stage, plan.pp)
    _cut(part, plan)
    if plant is not None:  # what this rank holds of it
        plant(part, rank)
    debugger = PrecisionDebugger(config_path=write_config(Path(path), task=task, level="mix"))
    debugger.start(part)
    passes = [_forward(part, plan, rank, replica, one) for one in range(BATCHES)]
    for x, y in passes:
        gradient = None
        if stage < plan.pp - 1:
            gradient = torch.empty_like(y)
            dist.recv(gradient, rank + plan.tp * plan.dp)
        y.backward(gradient)
        if stage > 0 and x.grad is not None:
            dist.send(x.grad, rank - plan.tp * plan.dp)
    debugger.stop()
    debugger.close()


def _cut(part: Part, plan: Plan) -> None:
    if plan.tp * plan.dp == 1:
        return
    names = ("pp", "dp", "tp")
    mesh = init_device_mesh("cpu", (plan.pp, plan.dp, plan.tp), mesh_dim_names=names)
    for step in part.steps.values():
        if plan.tp > 1:
            wide = ("look.wq", "look.wk", "look.wv", "gate.w1", "gate.w3")
            cuts: dict[str, Any] = {name: ColwiseParallel() for name in wide}
            cuts |= {name: RowwiseParallel() for name in ("look.wo", "gate.w2")}
            parallelize_module(step, mesh["tp"], cuts)
        if plan.dp > 1:
            fully_shard(step, mesh=mesh["dp"])
    if plan.dp > 1:
        fully_shard(part, mesh=mesh["dp"])


def _forward(part: Part, plan: Plan, rank: int, replica: int, number: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(90 + number * plan.dp + replica)
    words = torch.randint(0, WORDS, (ROWS, LENGTH + 1), generator=generator)
    x = words[:, :-1]
    if part.table is None:
        x = torch.empty(ROWS, LENGTH, SIZE)
        dist.recv(x, rank - plan.tp * plan.dp)
        x.requires_grad_()
    y = part(x)
    if part.scores is None:
        dist.send(y.detach(), rank + plan.tp * plan.dp)
        return x, y
    return x, functional.cross_entropy(y.flatten(0, 1), words[:, 1:].flatten()) / BATCHES
