"""One training step of the NeoX model, spread over ranks and recorded."""

# mypy: disable-error-code="union-attr, no-untyped-call, no-any-return, misc, attr-defined"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from msprobe_collector import PrecisionDebugger
from tests.collector.recording import write_config
from tests.faults.programs.neox import BATCH, DEPTH, LENGTH, WIDTH, NeoX, Options, batch
from tests.faults.programs.seat import Seat

WHOLE = ["embed", *(str(layer) for layer in range(DEPTH)), "head", "loss"]


@dataclass
class Job:
    """What a script decides; faults change it on some ranks."""

    sizes: dict[str, int]
    options: Options = Options()
    chunks: list[list[str]] = field(default_factory=lambda: [WHOLE])  # as data flows
    micro: int = 1
    ignored: bool = False
    clip: float = 0.0
    rate: float = 0.0
    skips_sum_of: str = ""  # whose gradients this rank keeps as they were


Plant = Callable[["Run"], None]


class Run:
    """A job on this rank."""

    def __init__(self, job: Job, plant: Plant | None) -> None:
        self.job, self.seat = job, Seat(**job.sizes)
        seat = self.seat
        torch.manual_seed(4)
        flows = range(seat.my_pp, len(job.chunks), seat.pp)
        self.models = {flow: NeoX(seat, job.options, job.chunks[flow]) for flow in flows}
        self.norm_factor = 1.0
        if plant is not None:
            plant(self)
        self.parameters = list(
            dict.fromkeys(one for model in self.models.values() for one in model.parameters())
        )
        self.optimizer = (
            torch.optim.AdamW(self.parameters, self.job.rate) if self.job.rate else None
        )

    def part(self, path: str) -> Any:
        """A module, parameter or attribute of whichever chunk has it; None elsewhere."""
        for model in self.models.values():
            value: Any = model
            for name in path.split("."):
                if isinstance(value, torch.nn.ModuleDict):
                    value = dict(value.items()).get(name)
                else:
                    value = getattr(value, name, None)
            if value is not None:
                return value
        return None

    def step(self) -> None:
        passes = [self.forward(number) for number in range(self.job.micro)]
        for one in passes:
            self.backward(one)
        self.reduce()
        if self.job.clip:
            self.clip()
        if self.optimizer is not None:
            self.optimizer.step()

    def at(self, flow: int) -> int:
        members = dist.get_process_group_ranks(self.seat.groups["pp"])
        return members[flow % self.seat.pp]

    def shape(self, flow: int) -> tuple[int, ...]:
        """Of what a chunk takes in."""
        length = LENGTH // self.seat.cp
        if self.job.options.is_sequence:
            length //= self.seat.tp
        before = self.job.chunks[flow - 1]
        return (length, BATCH, 44 if "head" in before else WIDTH)

    def forward(self, number: int) -> list[tuple[int, Tensor, Tensor]]:
        ids, labels = batch(number, self.seat, self.job.options, self.job.ignored)
        kept, y = [], ids
        for flow, model in self.models.items():
            x = ids if flow == 0 else y
            if flow > 0 and self.seat.pp > 1:
                x = torch.empty(self.shape(flow))
                dist.recv(x, self.at(flow - 1))
                x.requires_grad_()
            y = model(x, labels)
            if flow < len(self.job.chunks) - 1:
                dist.send(y.detach(), self.at(flow + 1))
            else:
                y = y / self.job.micro
            kept.append((flow, x, y))
        return kept

    def backward(self, kept: list[tuple[int, Tensor, Tensor]]) -> None:
        for flow, x, y in reversed(kept):
            if flow == len(self.job.chunks) - 1:
                y.backward()
            else:
                grad = torch.empty_like(y)
                dist.recv(grad, self.at(flow + 1))
                torch.autograd.backward(y, grad)
            if flow > 0 and x.grad is not None:
                dist.send(x.grad, self.at(flow - 1))

    def reduce(self) -> None:
        """Gradients over all that saw other words."""
        seat, options = self.seat, self.job.options
        averaged = options.division != "all"
        for model in self.models.values():
            for name, one in model.named_parameters():
                own = one.grad.clone()
                is_shared = one.ndim == 1 and "query" not in name and "h_to_4h" not in name
                if options.is_sequence and seat.tp > 1 and (is_shared or "4h_to_h.bias" in name):
                    dist.all_reduce(one.grad, group=seat.groups["tp"])
                if seat.cp > 1:
                    dist.all_reduce(one.grad, group=seat.groups["cp"])
                    if averaged:
                        one.grad.div_(seat.cp)
                if seat.dp > 1:
                    dist.all_reduce(one.grad, group=seat.groups["dp"])
                    one.grad.div_(seat.dp)
                if self.job.skips_sum_of and self.job.skips_sum_of in name:
                    one.grad.copy_(own)

    def clip(self) -> None:
        """By the norm of all gradients of the model."""
        seat = self.seat
        total = torch.zeros(())
        for model in self.models.values():
            for name, one in model.named_parameters():
                cut = one.ndim == 2 or "query" in name or "h_to_4h.bias" in name
                if cut or seat.my_tp == 0:
                    total = total + one.grad.square().sum()
        for axis in ("tp", "pp"):
            if seat.groups[axis] is not None:
                dist.all_reduce(total, group=seat.groups[axis])
        factor = torch.clamp(self.job.clip * self.norm_factor / (total.sqrt() + 1e-6), max=1.0)
        for one in self.parameters:
            one.grad.mul_(factor)


def work(_: int, path: str, job: Job, plant: Plant | None) -> None:
    """Record the step of one rank."""
    run = Run(job, plant)
    models = list(run.models.values())
    debugger = PrecisionDebugger(config_path=write_config(Path(path)))
    debugger.start(models if len(models) > 1 else models[0])
    run.step()
    debugger.stop()
    debugger.close()
