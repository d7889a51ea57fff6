"""A step of two data-parallel ranks whose optimizers each have a part of the parameters.

``whole`` parameters are handed out by PyTorch's ``ZeroRedundancyOptimizer``; with ``slices`` each
rank has half of one flat buffer, parameter by parameter, as Megatron's distributed optimizer does.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer

from msprobe_collector import PrecisionDebugger
from tests.collector.processes import run_in
from tests.collector.recording import write_config

RANK = 1  # with the fault
WIDTH = 6
SETTINGS = {"lr": 1e-2, "betas": (0.9, 0.99), "weight_decay": 0.1}
WRONG: dict[str, dict[str, Any]] = {
    "rate": {"lr": 1.5e-2},
    "decay": {"weight_decay": 0.0},
    "beta": {"betas": (0.5, 0.99)},
}


class Job(NamedTuple):
    """``parts``: none (all parameters on both ranks), whole, slices."""

    parts: str
    fault: str = "none"
    is_foreach: bool = False

    @property
    def folder(self) -> str:
        return f"{self.parts}_{self.fault}_{self.is_foreach}"


def _model() -> nn.Module:
    torch.manual_seed(3)
    sizes = (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH), (WIDTH, 5)
    linears = [nn.Linear(*size) for size in sizes]
    return nn.Sequential(linears[0], nn.GELU(), linears[1], nn.LayerNorm(WIDTH), linears[2])


def _step(rank: int, job: Job, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    x = torch.randn(7, WIDTH, generator=torch.Generator().manual_seed(rank))
    model(x).square().mean().backward()
    gradients = [one.grad for one in model.parameters() if one.grad is not None]
    for one in gradients:
        dist.all_reduce(one)
        one.div_(2)
    if job.fault == "doubled" and rank == RANK:
        for one in gradients:
            one.mul_(2)
    if job.parts == "slices":
        flat = torch.cat([one.flatten() for one in gradients])
        for group in optimizer.param_groups:
            for part in group["params"]:
                part.grad = flat[part.span[0] : part.span[1]]
    if not (job.fault == "stale" and rank == RANK):
        optimizer.step()


def _slices(rank: int, parameters: list[nn.Parameter]) -> list[nn.Parameter]:
    flat = torch.cat([one.detach().flatten() for one in parameters])
    middle = len(flat) // 2
    first, last = (0, middle) if rank == 0 else (middle, len(flat))
    parts, begin = [], 0
    for one in parameters:
        span = max(begin, first), min(begin + one.numel(), last)
        begin += one.numel()
        if span[0] < span[1]:
            part: Any = nn.Parameter(flat[span[0] : span[1]].clone())
            part.span = span
            parts.append(part)
    return parts


def _train(rank: int, folder: str, jobs: list[Job]) -> None:
    for job in jobs:
        path = write_config(Path(folder) / job.folder)
        model = _model()
        wrong = WRONG.get(job.fault, {}) if rank == RANK else {}
        settings: dict[str, Any] = {**SETTINGS, **wrong, "foreach": job.is_foreach}
        own: list[Any] = list(model.parameters())
        optimizer: torch.optim.Optimizer
        if job.parts == "whole":
            optimizer = ZeroRedundancyOptimizer(own, torch.optim.AdamW, **settings)
        else:
            own = _slices(rank, own) if job.parts == "slices" else own
            optimizer = torch.optim.AdamW(own, **settings)
        debugger = PrecisionDebugger(config_path=path)
        try:
            debugger.start(model)
            _step(rank, job, model, optimizer)
            debugger.stop()
        finally:
            debugger.close()


def dump_all(folder: Path, jobs: list[Job]) -> None:
    """Each job's dump in the folder named after it."""
    folder.mkdir(parents=True, exist_ok=True)
    run_in(2, _train, str(folder), jobs)
