"""Two replicas that PyTorch keeps alike: their gradients are averaged unseen, with or without a
share of the optimizer for each (ZeRO-1)."""

# mypy: disable-error-code="no-untyped-call, no-any-return, misc"
# torch is typed in part only.

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from msprobe_collector import PrecisionDebugger
from tests.collector.recording import write_config

WIDTH, BATCH, STEPS = 24, 12, 2


class Run(NamedTuple):
    """A training of two steps; a fault is that of the second rank."""

    micro: int = 1  # backward passes of a step on each rank
    shares_updates: bool = False
    is_worn: bool = False  # a weight
    keeps: bool = False  # gradients of the first step


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.down = nn.Linear(3 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(functional.gelu(self.up(self.norm(x))))


def work(rank: int, path: str, run: Run) -> None:
    """Record a rank; one process alone goes through the samples of both ranks."""
    torch.manual_seed(4)
    model = nn.Sequential(Block(), Block(), nn.Linear(WIDTH, WIDTH))
    ranks, is_second = dist.get_world_size(), rank == 1
    called: Any = DistributedDataParallel(model) if ranks > 1 else model
    if run.is_worn and is_second:
        with torch.no_grad():
            model.get_parameter("1.down.weight").mul_(1.1)
    if run.shares_updates:
        kind = torch.optim.AdamW
        optimizer: Any = ZeroRedundancyOptimizer(model.parameters(), kind, lr=0.01)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    debugger = PrecisionDebugger(config_path=write_config(Path(path), step=[]))
    for step in range(STEPS):
        samples = [_samples(step, *divmod(one * ranks + rank, 2)) for one in range(run.micro)]
        debugger.start(model)
        for place, x in enumerate(samples):
            is_last = place + 1 == run.micro or ranks == 1
            with nullcontext() if is_last else called.no_sync():
                loss = functional.mse_loss(called(x), x.roll(1, -1))
                (loss / run.micro).backward()
        optimizer.step()
        if not (run.keeps and is_second):
            optimizer.zero_grad()
        debugger.stop()
        debugger.step()
    debugger.close()


def _samples(step: int, turn: int, rank: int) -> Tensor:
    generator = torch.Generator().manual_seed(100 * step + 10 * turn + rank)
    return torch.randn(BATCH, WIDTH, generator=generator)
