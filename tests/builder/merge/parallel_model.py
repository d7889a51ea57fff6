"""A small language model as frameworks split it over ranks, trained for a step over gloo.

Every split has the same weights and the same data; the collector records each rank.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return, misc, no-untyped-def"
# torch is typed in part only.

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from msprobe_collector import PrecisionDebugger
from tests.collector.processes import run_in
from tests.collector.recording import write_config

VOCABULARY, HIDDEN, HEADS, INNER, LENGTH, BATCH, LAYERS, MICRO_BATCHES = 24, 8, 4, 12, 6, 2, 2, 2


class Split(NamedTuple):
    """Sizes of tensor and pipeline parallelism, and what is dumped."""

    tp: int = 1
    pp: int = 1
    task: str = "tensor"
    level: str = "mix"
    faulty_rank: int = -1  # its first gated projection is 1.05 times what it should be


class Ranks:
    """This process among the others: its groups, and its part of every weight."""

    def __init__(self, rank: int, split: Split) -> None:
        self.rank, self.tp, self.pp = rank, split.tp, split.pp
        self.stage, self.part = divmod(rank, split.tp)
        groups = [
            dist.new_group([stage * split.tp + part for part in range(split.tp)])
            for stage in range(split.pp)
        ]
        self.group = groups[self.stage]

    def cut(self, whole: Tensor, dimension: int) -> Tensor:
        return whole.chunk(self.tp, dimension)[self.part].contiguous()


class Copy(torch.autograd.Function):
    """The same on all ranks; their gradients are summed."""

    @staticmethod
    def forward(context: Any, x: Tensor, ranks: Ranks) -> Tensor:
        context.ranks = ranks
        return x.clone()

    @staticmethod
    def backward(context: Any, *gradient: Tensor) -> tuple[Tensor, None]:
        whole = gradient[0].clone()
        if context.ranks.tp > 1:
            dist.all_reduce(whole, group=context.ranks.group)
        return whole, None


class Reduce(torch.autograd.Function):
    """The sum over all ranks; its gradient is the same on all."""

    @staticmethod
    def forward(_: Any, x: Tensor, ranks: Ranks) -> Tensor:
        whole = x.clone()
        if ranks.tp > 1:
            dist.all_reduce(whole, group=ranks.group)
        return whole

    @staticmethod
    def backward(_: Any, *gradient: Tensor) -> tuple[Tensor, None]:
        return gradient[0], None


def weight(name: str, *shape: int) -> Tensor:
    """The same numbers in every split."""
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    return torch.randn(shape, generator=generator) * 0.3


class VocabParallelEmbedding(nn.Module):
    def __init__(self, ranks: Ranks) -> None:
        super().__init__()
        self.ranks = ranks
        self.weight = nn.Parameter(ranks.cut(weight("words", VOCABULARY, HIDDEN), 0))

    def forward(self, words: Tensor) -> Tensor:
        first = self.ranks.part * len(self.weight)
        is_other = (words < first) | (words >= first + len(self.weight))
        x = functional.embedding((words - first).masked_fill(is_other, 0), self.weight)
        return Reduce.apply(x.masked_fill(is_other[..., None], 0.0), self.ranks)


class ColumnParallelLinear(nn.Module):
    def __init__(self, ranks: Ranks, whole: Tensor) -> None:
        super().__init__()
        self.ranks, self.weight = ranks, nn.Parameter(ranks.cut(whole, 0))

    def forward(self, x: Tensor) -> Tensor:
        return torch.matmul(Copy.apply(x, self.ranks), self.weight.t())


class RowParallelLinear(nn.Module):
    def __init__(self, ranks: Ranks, whole: Tensor) -> None:
        super().__init__()
        self.ranks, self.weight = ranks, nn.Parameter(ranks.cut(whole, 1))

    def forward(self, x: Tensor) -> Tensor:
        return Reduce.apply(torch.matmul(x, self.weight.t()), self.ranks)


class RMSNorm(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(1.0 + weight(name, HIDDEN))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(torch.mean(x * x, -1, keepdim=True) + 1e-6) * self.weight


class Attention(nn.Module):
    """Each head has its query, key and value side by side in the fused projection."""

    def __init__(self, ranks: Ranks, name: str) -> None:
        super().__init__()
        self.heads = HEADS // ranks.tp
        self.linear_qkv = ColumnParallelLinear(ranks, weight(f"{name} qkv", 3 * HIDDEN, HIDDEN))
        self.linear_proj = RowParallelLinear(ranks, weight(f"{name} proj", HIDDEN, HIDDEN))

    def forward(self, x: Tensor) -> Tensor:
        mixed = self.linear_qkv(x)
        mixed = mixed.view(LENGTH, BATCH, self.heads, 3 * HIDDEN // HEADS)
        query, key, value = torch.split(mixed, HIDDEN // HEADS, dim=3)
        query, key, value = (one.permute(1, 2, 0, 3) for one in (query, key, value))
        probabilities = torch.softmax(torch.matmul(query, key.transpose(2, 3)), dim=-1)
        context = torch.matmul(probabilities, value).permute(2, 0, 1, 3).contiguous()
        return self.linear_proj(context.view(LENGTH, BATCH, -1))


class MLP(nn.Module):
    """A gated one: each rank has its part of the gate, then its part of the other factor."""

    def __init__(self, ranks: Ranks, name: str) -> None:
        super().__init__()
        gate, up = weight(f"{name} gate", INNER, HIDDEN), weight(f"{name} up", INNER, HIDDEN)
        self.linear_fc1 = ColumnParallelLinear(ranks, torch.cat([gate, up]))
        fused = torch.cat([ranks.cut(gate, 0), ranks.cut(up, 0)])
        self.linear_fc1.weight = nn.Parameter(fused)
        self.linear_fc2 = RowParallelLinear(ranks, weight(f"{name} down", HIDDEN, INNER))

    def forward(self, x: Tensor) -> Tensor:
        gate, up = torch.chunk(self.linear_fc1(x), 2, dim=-1)
        return self.linear_fc2(functional.silu(gate) * up)


class Layer(nn.Module):
    def __init__(self, ranks: Ranks, name: str) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(f"{name} first")
        self.self_attention = Attention(ranks, name)
        self.pre_mlp_layernorm = RMSNorm(f"{name} second")
        self.mlp = MLP(ranks, name)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.self_attention(self.input_layernorm(x))
        return x + self.mlp(self.pre_mlp_layernorm(x))


class GPT(nn.Module):
    """The layers of this stage, with what stands before the first and behind the last."""

    def __init__(self, ranks: Ranks) -> None:
        super().__init__()
        is_last = ranks.stage == ranks.pp - 1
        own = torch.arange(LAYERS).chunk(ranks.pp)[ranks.stage].tolist()
        self.embedding = VocabParallelEmbedding(ranks) if ranks.stage == 0 else None
        self.layers = nn.ModuleList(Layer(ranks, f"layer {number}") for number in own)
        self.norm = RMSNorm("last") if is_last else None
        head = weight("head", VOCABULARY, HIDDEN)
        self.output_layer = ColumnParallelLinear(ranks, head) if is_last else None

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.embedding is None else self.embedding(x)
        for layer in self.layers:
            x = layer(x)
        if self.norm is None or self.output_layer is None:
            return x
        return self.output_layer(self.norm(x))


def train(
    rank: int, path: str, split: Split, plant: Callable[[GPT, Ranks], None] | None = None
) -> None:
    """One step of one rank: all forward passes, then all backward passes.

    ``plant`` may put a fault into the model.
    """
    ranks = Ranks(rank, split)
    model = GPT(ranks)
    if plant is not None:
        plant(model, ranks)
    if rank == split.faulty_rank:
        with torch.no_grad():
            model.get_parameter("layers.0.mlp.linear_fc1.weight").mul_(1.05)
    content: dict[str, Any] = {"task": split.task, "level": split.level}
    content["tensor"] = {"layout": "files"}  # the tests change some of them
    if split.task == "md5":
        content |= {"task": "statistics", "statistics": {"summary_mode": "md5"}}
    debugger = PrecisionDebugger(config_path=write_config(Path(path), **content))
    debugger.start(model)
    passes = [_forward(model, ranks, number) for number in range(MICRO_BATCHES)]
    for entered, left in passes:
        _backward(ranks, entered, left)
    debugger.stop()
    debugger.close()


def _forward(model: GPT, ranks: Ranks, number: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(number)
    x = torch.randint(0, VOCABULARY, (LENGTH, BATCH), generator=generator)
    if ranks.stage > 0:
        x = torch.empty(LENGTH, BATCH, HIDDEN)
        dist.recv(x, ranks.rank - ranks.tp)
        x.requires_grad_()
    y = model(x)
    if ranks.stage < ranks.pp - 1:
        dist.send(y.detach(), ranks.rank + ranks.tp)
    return x, y


def _backward(ranks: Ranks, entered: Tensor, left: Tensor) -> None:
    if ranks.stage < ranks.pp - 1:
        gradient = torch.empty_like(left)
        dist.recv(gradient, ranks.rank + ranks.tp)
        left.backward(gradient)
    else:
        left.backward(left.detach() * 0.1)
    if ranks.stage > 0 and entered.grad is not None:
        dist.send(entered.grad, ranks.rank - ranks.tp)


def dump(path: Path, split: Split) -> Path:
    """The dump of a step in as many processes as the split has ranks."""
    path.mkdir(parents=True)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    run_in(split.tp * split.pp, train, str(path), split)
    return path / "dump" / "step0"
