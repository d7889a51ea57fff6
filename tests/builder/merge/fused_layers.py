"""Parallel layers whose kernels talk to the other ranks themselves, as on an NPU (MC2).

The operators have the names and the mathematics of those of torch_npu, over gloo on a CPU, so that
they are recorded as there.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return, misc, no-untyped-def"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from msprobe_collector import PrecisionDebugger
from tests.collector.processes import run_in
from tests.collector.recording import write_config

LENGTH, BATCH, HIDDEN, INNER = 6, 2, 8, 20
RANK = 1  # whose weight may be too large


def _gathered(x: Tensor) -> Tensor:
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x.contiguous())
    return torch.cat(parts)


def _reduced(x: Tensor) -> Tensor:
    whole = x.clone()
    dist.all_reduce(whole)
    return whole


def _all_gather_mm(x: Tensor, x2: Tensor, _: str, __: int) -> tuple[Tensor, Tensor]:
    whole = _gathered(x)
    return whole @ x2, whole


def _mm_reduce_scatter(x: Tensor, x2: Tensor, _: str, world_size: int) -> Tensor:
    return _reduced(x @ x2).chunk(world_size)[dist.get_rank()].clone()


def _mm_all_reduce(x1: Tensor, x2: Tensor, _: str) -> Tensor:
    return _reduced(x1 @ x2)


def _define() -> torch.library.Library:
    library = torch.library.Library("npu", "DEF")
    for name, given, function in (
        ("npu_all_gather_base_mm", "Tensor x, Tensor x2, str hcom, int n) -> (Tensor, Tensor", 0),
        ("npu_mm_reduce_scatter_base", "Tensor x, Tensor x2, str hcom, int n) -> (Tensor", 1),
        ("npu_mm_all_reduce_base", "Tensor x, Tensor x2, str hcom) -> (Tensor", 2),
    ):
        library.define(f"{name}({given})")
        library.impl(name, (_all_gather_mm, _mm_reduce_scatter, _mm_all_reduce)[function], "CPU")
    return library


class _Column(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        size = dist.get_world_size()
        y, whole = torch.ops.npu.npu_all_gather_base_mm(rows, weight.t(), "group", size)
        context.save_for_backward(whole, weight)
        return y.view(-1, x.shape[1], y.shape[-1])

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        whole, weight = context.saved_tensors
        rows = gradients[0].reshape(-1, gradients[0].shape[-1])
        size = dist.get_world_size()
        back = torch.ops.npu.npu_mm_reduce_scatter_base(rows, weight, "group", size)
        return back.view(-1, gradients[0].shape[1], back.shape[-1]), rows.t() @ whole


class _Row(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        context.save_for_backward(rows, weight)
        size = dist.get_world_size()
        y = torch.ops.npu.npu_mm_reduce_scatter_base(rows, weight.t(), "group", size)
        return y.view(-1, x.shape[1], y.shape[-1])

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        rows, weight = context.saved_tensors
        back = gradients[0].reshape(-1, gradients[0].shape[-1])
        size = dist.get_world_size()
        given, whole = torch.ops.npu.npu_all_gather_base_mm(back, weight, "group", size)
        return given.view(-1, gradients[0].shape[1], given.shape[-1]), whole.t() @ rows


def _weight(name: str, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    return torch.randn(shape, generator=generator) * 0.3


class ColumnParallelLinear(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        part = _weight(name, INNER, HIDDEN).chunk(dist.get_world_size())[dist.get_rank()]
        self.weight = nn.Parameter(part.contiguous())

    def forward(self, x: Tensor) -> Tensor:
        is_whole = dist.get_world_size() == 1
        return functional.linear(x, self.weight) if is_whole else _Column.apply(x, self.weight)


class RowParallelLinear(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        part = _weight(name, HIDDEN, INNER).chunk(dist.get_world_size(), 1)[dist.get_rank()]
        self.weight = nn.Parameter(part.contiguous())

    def forward(self, x: Tensor) -> Tensor:
        if dist.get_world_size() == 1:
            return functional.linear(x, self.weight)
        if torch.is_grad_enabled():
            return _Row.apply(x, self.weight)
        rows = x.reshape(-1, x.shape[-1])
        y = torch.ops.npu.npu_mm_all_reduce_base(rows, self.weight.t(), "group")
        return y.view(*x.shape[:-1], -1)


class Block(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(HIDDEN)
        self.up, self.down = ColumnParallelLinear(f"{name} up"), RowParallelLinear(f"{name} down")

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(functional.gelu(self.up(self.norm(x))))


def _train(rank: int, folder: str, factor: float) -> None:
    library = _define()
    model = nn.Sequential(Block("first"), Block("second"))
    if rank == RANK:
        with torch.no_grad():
            model.get_parameter("1.up.weight").mul_(factor)
    debugger = PrecisionDebugger(config_path=write_config(Path(folder)))
    try:
        debugger.start(model)
        x = _weight("words", LENGTH, BATCH, HIDDEN).chunk(dist.get_world_size())[rank]
        y = model(x.clone().requires_grad_())
        y.backward(y.detach() * 0.1)
        with torch.no_grad():  # as in inference: nothing is scattered
            inner = _weight("inner", LENGTH, BATCH, INNER).chunk(dist.get_world_size(), -1)[rank]
            model.get_submodule("0.down")(inner)
        debugger.stop()
    finally:
        debugger.close()
        library._destroy()


def dump(folder: Path, ranks: int, factor: float = 1.0) -> Path:
    """The dump of a step over so many ranks."""
    folder.mkdir(parents=True)
    run_in(ranks, _train, str(folder), factor)
    return folder / "dump" / "step0"
