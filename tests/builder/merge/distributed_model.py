"""A small model that PyTorch itself splits: tensor parallelism of DTensor, and FSDP2."""

# mypy: disable-error-code="no-untyped-call, no-any-return, misc, attr-defined, abstract"
# torch is typed in part only.

from __future__ import annotations

import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn import functional

from msprobe_collector import PrecisionDebugger
from tests.collector.processes import run_in
from tests.collector.recording import write_config

WORDS, HIDDEN, INNER, LENGTH, BATCH, HEAD = 32, 16, 32, 6, 2, 4
FAULTY = "layers.1.attention.v.weight"
PLAN = {
    "attention.q": ColwiseParallel,
    "attention.k": ColwiseParallel,
    "attention.v": ColwiseParallel,
    "attention.o": RowwiseParallel,
    "mlp.up": ColwiseParallel,
    "mlp.down": RowwiseParallel,
}


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(HIDDEN, HIDDEN, bias=False) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            linear(x).view(len(x), LENGTH, -1, HEAD).transpose(1, 2)
            for linear in (self.q, self.k, self.v)
        )
        weights = torch.softmax(torch.matmul(q, k.transpose(2, 3)) * 0.5, -1)
        return self.o(torch.matmul(weights, v).transpose(1, 2).reshape(len(x), LENGTH, -1))


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(HIDDEN, INNER), nn.Linear(INNER, HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(functional.gelu(self.up(x)))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.attention, self.mlp = Attention(), MLP()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.first(x))
        return x + self.mlp(self.second(x))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, HIDDEN)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.head = nn.Linear(HIDDEN, WORDS, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.words(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def split_sequence(model: Model) -> None:
    """Norms and what lies between the layers hold slices of the sequence; words are cut."""
    mesh = init_device_mesh("cpu", (2,))
    part, whole = Shard(1), Replicate()
    words = RowwiseParallel(input_layouts=whole, output_layouts=part)
    head = ColwiseParallel(input_layouts=part, output_layouts=whole)
    parallelize_module(model, mesh, {"words": words, "head": head})
    gathers = PrepareModuleInput(input_layouts=(part,), desired_input_layouts=(whole,))
    for layer in model.layers:
        plan = {
            name: RowwiseParallel(output_layouts=part) if style is RowwiseParallel else style()
            for name, style in PLAN.items()
        }
        norms = {name: SequenceParallel(use_local_output=True) for name in ("first", "second")}
        parallelize_module(layer, mesh, {**plan, **norms, "attention": gathers, "mlp": gathers})


def words_of(replica: int, way: str) -> Tensor:
    """The samples of a replica; ``all4`` has those of four replicas in one batch."""
    if way.startswith("all"):
        return torch.cat([words_of(one, "") for one in range(int(way.removeprefix("all")))])
    generator = torch.Generator().manual_seed(replica)
    return torch.randint(0, WORDS, (BATCH, LENGTH), generator=generator)


def train(rank: int, way: str, path: str, task: str = "statistics") -> None:
    """One step of one rank; with replicas each has samples of its own."""
    torch.manual_seed(1)
    model = Model()
    if way.startswith("sequence"):
        split_sequence(model)
    if way == "sequence_fault" and rank == 1:
        with torch.no_grad():
            model.get_parameter("layers.1.mlp.down.weight").to_local().mul_(1.05)
    if way.startswith("tp"):
        mesh = init_device_mesh("cpu", (2,))
        for layer in model.layers:
            parallelize_module(layer, mesh, {name: style() for name, style in PLAN.items()})
        if way == "tp_fault" and rank == 1:
            with torch.no_grad():
                model.get_parameter(FAULTY).to_local().mul_(1.05)
    if way.startswith("fsdp"):
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for layer in model.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        if way == "fsdp_fault" and rank == 1:
            with torch.no_grad():
                model.get_parameter(FAULTY).to_local().mul_(1.05)
    debugger = PrecisionDebugger(config_path=write_config(Path(path), task=task))
    debugger.start(model)
    y = model(words_of(rank if way == "dp" or way.startswith("fsdp") else 0, way))
    y.square().mean().backward()
    debugger.stop()
    PrecisionDebugger.close()


def dump(path: Path, way: str, ranks: int = 2, task: str = "statistics") -> Path:
    """The dump of a step on one rank (``one``, ``all4``) or on several."""
    path.mkdir(parents=True)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    run_in(1 if way == "one" or way.startswith("all") else ranks, train, way, str(path), task)
    return path / "dump" / "step0"
