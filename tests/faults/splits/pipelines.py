"""A decoder in stages that torch's own schedules run: 1F1B, interleaved, zero-bubble, DualPipeV.

A schedule averages gradients when it is through with a stage; the single rank divides its loss.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return, misc, attr-defined"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, schedules
from torch.nn import functional

from msprobe_collector import PrecisionDebugger
from tests.collector.recording import write_config
from tests.faults.splits.native import LENGTH, SIZE, WORDS, Step

LAYERS, BATCHES, ROWS = 8, 4, 2
# Their stages lie as a V: the first and the last one on the first rank.
_BENT = {"ScheduleZBVZeroBubble", "ScheduleDualPipeV"}
_SINGLE = {"Schedule1F1B", "ScheduleGPipe"}
Plant = Callable[["Part", int], None]


class Part(nn.Module):
    """The layers of a stage by their numbers in the whole, and what stands before and behind."""

    def __init__(self, stage: int, stages: int) -> None:
        super().__init__()
        torch.manual_seed(4)  # all layers are made, so that each stage has its own weights
        table, steps = nn.Embedding(WORDS, SIZE), [Step() for _ in range(LAYERS)]
        last, scores = nn.RMSNorm(SIZE), nn.Linear(SIZE, WORDS, bias=False)
        count = LAYERS // stages
        own = range(stage * count, (stage + 1) * count)
        self.table = table if stage == 0 else None
        self.steps = nn.ModuleDict({str(number): steps[number] for number in own})
        is_last = stage == stages - 1
        self.last = last if is_last else None
        self.scores = scores if is_last else None

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.table is None else self.table(x)
        for step in self.steps.values():
            x = step(x)
        return x if self.last is None or self.scores is None else self.scores(self.last(x))


def scaled(rank: int, name: str, factor: float) -> Plant:
    """Multiply a weight on the rank that has it."""

    def plant(part: Part, own: int) -> None:
        with torch.no_grad():
            if own == rank and name in dict(part.named_parameters()):
                part.get_parameter(name).mul_(factor)

    return plant


def other_epsilon(rank: int, name: str) -> Plant:
    """Another epsilon of a norm on the rank that has it."""

    def plant(part: Part, own: int) -> None:
        if own == rank and name in dict(part.named_modules()):
            norm: Any = part.get_submodule(name)
            norm.eps = 0.01

    return plant


def train(rank: int, path: str, way: str, task: str, plant: Plant | None) -> None:
    """A step of one rank; ``way`` is the class of a schedule, one, or chunked_one."""
    world = dist.get_world_size()
    is_whole = way in ("one", "chunked_one")
    each = 1 if is_whole or way in _SINGLE else 2
    count = world * each
    own = [rank, count - 1 - rank] if way in _BENT else list(range(rank, count, world))
    parts = [Part(stage, count) for stage in own]
    for part in parts if plant is not None else ():
        plant(part, rank)
    generator = torch.Generator().manual_seed(60)
    words = torch.randint(0, WORDS, (BATCHES * ROWS, LENGTH + 1), generator=generator)
    words, wanted = words[:, :-1], words[:, 1:]
    debugger = PrecisionDebugger(config_path=write_config(Path(path), task=task, level="mix"))
    if is_whole:
        debugger.start(parts[0] if way == "one" else parts)  # whose names have the chunk in front
        for x, y in zip(words.chunk(BATCHES), wanted.chunk(BATCHES), strict=True):
            (_loss(parts[0](x), y) / BATCHES).backward()
    else:
        stages = [
            PipelineStage(part, stage, count, torch.device("cpu"))
            for part, stage in zip(parts, own, strict=True)
        ]
        make: Any = getattr(schedules, way)
        schedule = make(stages if each > 1 else stages[0], BATCHES, loss_fn=_loss)
        debugger.start(parts if each > 1 else parts[0])
        entering = (words,) if 0 in own else ()
        schedule.step(*entering, **({"target": wanted} if count - 1 in own else {}))
    debugger.stop()
    debugger.close()


def _loss(scores: Tensor, wanted: Tensor) -> Tensor:
    return functional.cross_entropy(scores.flatten(0, 1), wanted.flatten())
