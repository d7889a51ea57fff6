"""A decoder of plain layers that PyTorch itself splits: DTensor, its sequence parallelism, FSDP2.

Of distributed weights a fault changes what this rank holds of them.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return, misc, attr-defined, abstract"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
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
from tests.collector.recording import write_config

SIZE, WIDE, INNER, LENGTH, BATCH, WORDS = 24, 6, 40, 10, 3, 32
Plant = Callable[["Plain", int], None]


class Look(nn.Module):
    """Attention with half as many heads of keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.wq = nn.Linear(SIZE, SIZE)
        self.wk, self.wv = (nn.Linear(SIZE, SIZE // 2) for _ in range(2))
        self.wo = nn.Linear(SIZE, SIZE)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (one(x).unflatten(-1, (-1, WIDE)).transpose(1, 2) for one in self.maps())
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.wo(y.transpose(1, 2).flatten(2))

    def maps(self) -> list[nn.Linear]:
        return [self.wq, self.wk, self.wv]


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w1, self.w3 = (nn.Linear(SIZE, INNER, bias=False) for _ in range(2))
        self.w2 = nn.Linear(INNER, SIZE, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(functional.silu(self.w1(x)) * self.w3(x))


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.RMSNorm(SIZE), nn.RMSNorm(SIZE)
        self.look, self.gate = Look(), Gate()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.look(self.one(x))
        return x + self.gate(self.two(x))


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(WORDS, SIZE)
        self.steps = nn.ModuleList(Step() for _ in range(3))
        self.last = nn.RMSNorm(SIZE)
        self.scores = nn.Linear(SIZE, WORDS, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.table(x)
        for step in self.steps:
            x = step(x)
        return self.scores(self.last(x))


def split(model: Plain, mesh: Any, is_sequence: bool) -> None:
    """Tensor parallel by the styles of PyTorch."""
    inner, whole = (Shard(1) if is_sequence else Replicate()), Replicate()
    top: dict[str, Any] = {
        "table": RowwiseParallel(input_layouts=whole, output_layouts=inner),
        "scores": ColwiseParallel(input_layouts=inner, output_layouts=whole),
    }
    if is_sequence:
        top["last"] = SequenceParallel(use_local_output=True)
    parallelize_module(model, mesh, top)
    gathers = PrepareModuleInput(input_layouts=(inner,), desired_input_layouts=(whole,))
    for step in model.steps:
        plan: dict[str, Any] = {f"look.{name}": ColwiseParallel() for name in ("wq", "wk", "wv")}
        plan |= {f"gate.{name}": ColwiseParallel() for name in ("w1", "w3")}
        plan |= {
            f"{name}": RowwiseParallel(output_layouts=inner) for name in ("look.wo", "gate.w2")
        }
        if is_sequence:
            plan |= {"look": gathers, "gate": gathers}
            plan |= {name: SequenceParallel(use_local_output=True) for name in ("one", "two")}
        parallelize_module(step, mesh, plan)


def own_part(model: Plain, name: str) -> Tensor:
    """What this rank holds of a weight."""
    weight: Any = model.get_parameter(name)
    return weight.to_local() if hasattr(weight, "to_local") else weight.detach()


def scaled(rank: int, name: str, factor: float) -> Plant:
    def plant(model: Plain, own: int) -> None:
        if own == rank:
            with torch.no_grad():
                own_part(model, name).mul_(factor)

    return plant


def exchanged(rank: int, name: str, other: str) -> Plant:
    def plant(model: Plain, own: int) -> None:
        if own == rank:
            one, two = own_part(model, name), own_part(model, other)
            with torch.no_grad():
                kept = one.clone()
                one.copy_(two)
                two.copy_(kept)

    return plant


def turned_rows(rank: int, name: str) -> Plant:
    def plant(model: Plain, own: int) -> None:
        if own == rank:
            one = own_part(model, name)
            with torch.no_grad():
                one.copy_(one.flip(0))

    return plant


def train(rank: int, path: str, way: str, task: str, plant: Plant | None) -> None:
    """A step of one rank; ``way`` is one, one_dp, dtensor, dtensor_sequence, fsdp, fsdp_tp."""
    torch.manual_seed(3)
    model = Plain()
    replica = rank
    if way.startswith("dtensor"):
        split(model, init_device_mesh("cpu", (2,)), way.endswith("sequence"))
        replica = 0
    mesh: Any = None
    if way == "fsdp":
        mesh = init_device_mesh("cpu", (2,))
    if way == "fsdp_tp":
        both = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        split(model, both["tp"], False)
        mesh, replica = both["dp"], rank // 2
    if mesh is not None:
        for step in model.steps:
            fully_shard(step, mesh=mesh)
        fully_shard(model, mesh=mesh)
    if plant is not None:
        plant(model, rank)
    generator = torch.Generator().manual_seed(50 + replica)
    words = torch.randint(0, WORDS, (BATCH, LENGTH + 1), generator=generator)
    debugger = PrecisionDebugger(config_path=write_config(Path(path), task=task, level="mix"))
    debugger.start(model)
    scores = model(words[:, :-1])
    functional.cross_entropy(scores.flatten(0, 1), words[:, 1:].flatten()).backward()
    debugger.stop()
    debugger.close()
