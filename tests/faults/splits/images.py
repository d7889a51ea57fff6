"""Pictures: norms over batches under DDP, and a model that looks and tells in unequal stages."""

# mypy: disable-error-code="no-untyped-call, no-any-return, misc, no-untyped-def"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from msprobe_collector import PrecisionDebugger
from tests.collector.recording import write_config
from tests.faults.splits.modern import Plant
from tests.faults.splits.native import LENGTH, SIZE, WORDS, Step

CHANNELS, PIXELS, ROWS, PATCH, CLASSES = 6, 8, 4, 4, 5
LOOKING, TELLING = 3, 4  # layers


class Part(nn.Module):
    """Two convolutions with norms over the batch, and what goes around them."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = (
            nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False) for _ in range(2)
        )
        self.norm_one, self.norm_two = nn.BatchNorm2d(CHANNELS), nn.BatchNorm2d(CHANNELS)

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.norm_one(self.one(x)))
        return functional.relu(x + self.norm_two(self.two(y)))


class Pictures(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, CHANNELS, 3, padding=1)
        self.parts = nn.ModuleList(Part() for _ in range(2))
        self.scores = nn.Linear(CHANNELS, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for part in self.parts:
            x = part(x)
        return self.scores(x.mean((2, 3)))


class Caption(nn.Module):
    """Looks at pieces of a picture, then tells words; of a stage what it has."""

    def __init__(self, stage: int, stages: int) -> None:
        super().__init__()
        torch.manual_seed(8)  # all of it is made, so that each stage has its own weights
        pieces = nn.Conv2d(3, SIZE, PATCH, PATCH)
        looking, telling = ([Step() for _ in range(one)] for one in (LOOKING, TELLING))
        bridge, words = nn.Linear(SIZE, SIZE), nn.Embedding(WORDS, SIZE)
        last, scores = nn.RMSNorm(SIZE), nn.Linear(SIZE, WORDS, bias=False)
        # One stage of three looks and tells with one layer; the last has two layers more.
        ends = {1: [TELLING], 2: [1, TELLING], 3: [0, 1, TELLING]}[stages]
        first = ends[stage - 1] if stage else 0
        is_first, is_last = stage == 0, stage == stages - 1
        self.pieces = pieces if is_first else None
        self.looking = nn.ModuleList(looking if is_first else [])
        self.bridge = bridge if is_first else None
        self.words = words if is_first else None
        self.telling = nn.ModuleDict({str(one): telling[one] for one in range(first, ends[stage])})
        self.last = last if is_last else None
        self.scores = scores if is_last else None

    def forward(self, x: Tensor, words: Tensor) -> Tensor:
        if self.pieces is not None and self.bridge is not None and self.words is not None:
            x = self.pieces(x).flatten(2).transpose(1, 2)
            for layer in self.looking:
                x = layer(x)
            x = torch.cat([self.bridge(x), self.words(words)], 1)
        for layer in self.telling.values():
            x = layer(x)
        if self.last is None or self.scores is None:
            return x
        return self.scores(self.last(x[:, -LENGTH:]))


def pictures(replica: int, count: int = ROWS) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(70 + replica)
    x = torch.randn(count, 3, PIXELS, PIXELS, generator=generator)
    return x, torch.randint(0, CLASSES, (count,), generator=generator)


def train(rank: int, path: str, way: str, task: str, plant: Plant | None) -> None:
    """Record a step of one rank; ``way`` is pictures, pictures_all or caption."""
    is_caption = way.startswith("caption")
    world = dist.get_world_size()
    torch.manual_seed(6)
    model: nn.Module = Caption(rank, world) if is_caption else Pictures()
    if plant is not None:
        plant(model, rank)
    debugger = PrecisionDebugger(config_path=write_config(Path(path), task=task, level="mix"))
    if is_caption:
        debugger.start(model)
        _tell(model, rank, world)
    else:
        wrapped = DistributedDataParallel(model) if world > 1 else model
        debugger.start(wrapped)
        batches = [pictures(one) for one in (range(2) if way.endswith("all") else [rank])]
        x, wanted = (torch.cat(parts) for parts in zip(*batches, strict=True))
        functional.cross_entropy(wrapped(x), wanted).backward()
    debugger.stop()
    debugger.close()


def _tell(model: nn.Module, rank: int, world: int) -> None:
    """Two micro-batches forward, then back."""
    passes = []
    for number in range(2):
        x, _ = pictures(number)
        generator = torch.Generator().manual_seed(80 + number)
        words = torch.randint(0, WORDS, (ROWS, LENGTH + 1), generator=generator)
        if rank > 0:
            x = torch.empty(ROWS, LENGTH + (PIXELS // PATCH) ** 2, SIZE)
            dist.recv(x, rank - 1)
            x.requires_grad_()
        y: Any = model(x, words[:, :-1])
        if rank < world - 1:
            dist.send(y.detach(), rank + 1)
        else:
            y = functional.cross_entropy(y.flatten(0, 1), words[:, 1:].flatten()) / 2
        passes.append((x, y))
    for x, y in passes:
        gradient = None
        if rank < world - 1:
            gradient = torch.empty_like(y)
            dist.recv(gradient, rank + 1)
        y.backward(gradient)
        if rank > 0 and x.grad is not None:
            dist.send(x.grad, rank - 1)


def other_eps(norm: Any) -> None:
    norm.eps = 0.05
