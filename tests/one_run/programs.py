"""Correct programs of four processes that talk over gloo, each one step of a small training."""

# mypy: disable-error-code="no-untyped-call, no-any-return, no-untyped-def, misc"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeAlias

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from msprobe_collector import PrecisionDebugger
from tests.collector.recording import write_config

WORLD = 4
WIDTH = 16
Program: TypeAlias = Callable[[int, str], None]


class Block(nn.Module):
    """What a layer adds to what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Net(nn.Module):
    """Three blocks; all processes begin alike."""

    def __init__(self, seed: int = 7) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def batch_of(rank: int, samples: int = 8) -> tuple[Tensor, Tensor]:
    """Inputs and targets that every process has of its own."""
    chance = torch.Generator().manual_seed(100 + rank)
    x = torch.randn(samples, WIDTH, generator=chance)
    return x, torch.randn(samples, 4, generator=chance)


def debugger_of(path: str) -> PrecisionDebugger:
    """Records with sketches and the flow of data."""
    asked = {"summary_mode": "sketch", "flow": True}
    return PrecisionDebugger(config_path=write_config(Path(path), statistics=asked))


def train(
    rank: int,
    path: str,
    reduce: Callable[[nn.Module], None],
    model: nn.Module | None = None,
    samples: int = 8,
    optimizer: Callable[[Any], torch.optim.Optimizer] | None = None,
    passes: Callable[[nn.Module], None] | None = None,
) -> None:
    """One step: forward and backward, ``reduce`` the gradients, and update the weights."""
    model = model or Net()
    update = (optimizer or (lambda own: torch.optim.SGD(own, lr=0.1)))(model.parameters())
    x, y = batch_of(rank, samples)
    debugger = debugger_of(path)
    with debugger.start(model):
        if passes is None:
            mse_loss(model(x), y).backward()
        else:
            passes(model)
        reduce(model)
        update.step()
    debugger.close()


def gradients(model: nn.Module) -> list[Tensor]:
    """What is kept beside the parameters, in their order."""
    return [one.grad for one in model.parameters() if one.grad is not None]


def nothing(_: nn.Module) -> None:
    """The wrapper around the model reduces by itself."""


def average(model: nn.Module) -> None:
    for gradient in gradients(model):
        dist.all_reduce(gradient)
        gradient.div_(WORLD)


def each_gradient(rank: int, path: str) -> None:
    """One reduction a parameter, in place."""
    train(rank, path, average, optimizer=lambda own: torch.optim.AdamW(own, lr=0.01))


def data_parallel(rank: int, path: str) -> None:
    """DistributedDataParallel, whose buckets nobody records."""
    train(rank, path, nothing, nn.parallel.DistributedDataParallel(Net(seed=rank)))


def accumulating(rank: int, path: str) -> None:
    """Two passes, of which the second reduces what both have brought."""

    def passes(model: Any) -> None:
        for number in range(2):
            x, y = batch_of(rank + WORLD * number)
            with model.no_sync() if number == 0 else nullcontext():
                (mse_loss(model(x), y) / 2).backward()

    train(rank, path, nothing, nn.parallel.DistributedDataParallel(Net()), passes=passes)


def half_precision(rank: int, path: str) -> None:
    """Gradients are reduced in bfloat16."""

    def reduce(model: nn.Module) -> None:
        for gradient in gradients(model):
            small = gradient.to(torch.bfloat16).div_(WORLD)
            dist.all_reduce(small)
            gradient.copy_(small)

    train(rank, path, reduce)


def uneven(rank: int, path: str) -> None:
    """Every process has another number of samples, and they are weighed by it."""
    samples = 4 + 2 * rank

    def reduce(model: nn.Module) -> None:
        total = torch.tensor(float(samples))
        dist.all_reduce(total)
        for gradient in gradients(model):
            gradient.mul_(samples)
            dist.all_reduce(gradient)
            gradient.div_(total)

    train(rank, path, reduce, samples=samples)


def at_once(rank: int, path: str) -> None:
    """All reductions are on their way together."""

    def reduce(model: nn.Module) -> None:
        works = [dist.all_reduce(one, async_op=True) for one in gradients(model)]
        for work in works:
            work.wait()
        torch._foreach_div_(gradients(model), float(WORLD))

    train(rank, path, reduce)


def bucketed(rank: int, path: str) -> None:
    """All gradients in one flat tensor."""

    def reduce(model: nn.Module) -> None:
        own = gradients(model)
        flat = torch.cat([one.reshape(-1) for one in own]) / WORLD
        dist.all_reduce(flat)
        parts = flat.split([one.numel() for one in own])
        for gradient, part in zip(own, parts, strict=True):
            gradient.copy_(part.view_as(gradient))

    train(rank, path, reduce)


def fully_sharded(rank: int, path: str) -> None:
    """fully_shard of each block and the whole."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = Net()
    mesh = init_device_mesh("cpu", (WORLD,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    train(rank, path, nothing, model)


def sharded_optimizer(rank: int, path: str) -> None:
    """ZeRO-1: each process updates a part of all parameters, which is then gathered."""
    model = Net()
    x, y = batch_of(rank)
    debugger = debugger_of(path)
    with debugger.start(model):
        mse_loss(model(x), y).backward()
        flat = torch.cat([one.reshape(-1) for one in gradients(model)])
        padded = torch.nn.functional.pad(flat, (0, -len(flat) % WORLD))
        own = torch.empty(len(padded) // WORLD)
        dist.reduce_scatter(own, list(padded.chunk(WORLD)))
        own.div_(WORLD)
        with torch.no_grad():
            weights = torch.cat([one.reshape(-1) for one in model.parameters()])
            weights = torch.nn.functional.pad(weights, (0, len(padded) - len(weights)))
            part = weights.chunk(WORLD)[rank] - 0.1 * own
            parts = [torch.empty_like(part) for _ in range(WORLD)]
            dist.all_gather(parts, part)
            place = 0
            whole = torch.cat(parts)
            for one in model.parameters():
                one.copy_(whole[place : place + one.numel()].view_as(one))
                place += one.numel()
    debugger.close()


class Summed(torch.autograd.Function):
    """Sums forward over the processes that hold parts of a product."""

    @staticmethod
    def forward(_: Any, x: Tensor, group: Any) -> Tensor:
        x = x.clone()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


class Copied(torch.autograd.Function):
    """Sums backward what the parts of a product send to what all were given."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        gradient = gradient.clone()
        dist.all_reduce(gradient, group=ctx.group)
        return gradient, None


class SplitBlock(nn.Module):
    """A block whose inner products are split over a group."""

    def __init__(self, part: int, size: int, group: Any = None) -> None:
        super().__init__()
        self.group = group
        self.norm = nn.LayerNorm(WIDTH)
        torch.manual_seed(11)
        up = nn.Linear(WIDTH, 2 * WIDTH)
        down = nn.Linear(2 * WIDTH, WIDTH)
        own = slice(part * 2 * WIDTH // size, (part + 1) * 2 * WIDTH // size)
        self.up = nn.Parameter(up.weight.data[own].clone())
        self.up_bias = nn.Parameter(torch.zeros(2 * WIDTH // size))
        self.down = nn.Parameter(down.weight.data[:, own].clone())
        self.down_bias = nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        inner = Copied.apply(self.norm(x), self.group)
        inner = torch.relu(nn.functional.linear(inner, self.up, self.up_bias))
        inner = Summed.apply(nn.functional.linear(inner, self.down), self.group)
        return x + (inner + self.down_bias)


def split_products(rank: int, path: str) -> None:
    """Tensor parallel as Megatron has it: the same samples on all processes."""
    torch.manual_seed(3)
    model = nn.Sequential(*(SplitBlock(rank, WORLD) for _ in range(3)), nn.Linear(WIDTH, 4))
    x, y = batch_of(0)
    debugger = debugger_of(path)
    update = torch.optim.SGD(model.parameters(), lr=0.1)
    with debugger.start(model):
        mse_loss(model(x), y).backward()
        update.step()
    debugger.close()


def sub_groups(rank: int, path: str) -> None:
    """Two by two: products are split over neighbours, gradients averaged over the others."""
    split = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]
    replicas = [dist.new_group([0, 2]), dist.new_group([1, 3])][rank % 2]
    torch.manual_seed(3)
    blocks = (SplitBlock(rank % 2, 2, split) for _ in range(2))
    model = nn.Sequential(*blocks, nn.Linear(WIDTH, 4))
    x, y = batch_of(rank // 2)
    debugger = debugger_of(path)
    update = torch.optim.SGD(model.parameters(), lr=0.1)
    with debugger.start(model):
        mse_loss(model(x), y).backward()
        for gradient in gradients(model):
            dist.all_reduce(gradient, group=replicas)
            gradient /= 2
        update.step()
    debugger.close()


def pipeline(rank: int, path: str) -> None:
    """A block on each process, and two micro-batches that go through all of them."""
    torch.manual_seed(20 + rank)
    model = Block()
    debugger = debugger_of(path)
    update = torch.optim.SGD(model.parameters(), lr=0.1)
    given: list[Tensor] = []
    made: list[Tensor] = []
    with debugger.start(model):
        for number in range(2):
            x = batch_of(number)[0] if rank == 0 else torch.empty(8, WIDTH)
            if rank:
                dist.recv(x, rank - 1)
            given.append(x.requires_grad_())
            made.append(model(x))
            if rank < WORLD - 1:
                dist.send(made[-1].detach(), rank + 1)
        for number in range(2):
            if rank == WORLD - 1:
                made[number].square().mean().backward()
            else:
                gradient = torch.empty(8, WIDTH)
                dist.recv(gradient, rank + 1)
                made[number].backward(gradient)
            if rank:
                sent = given[number].grad
                assert sent is not None
                dist.send(sent, rank - 1)
        update.step()
    debugger.close()


CORRECT: dict[str, Program] = {
    one.__name__: one
    for one in (
        each_gradient,
        data_parallel,
        accumulating,
        half_precision,
        uneven,
        at_once,
        bucketed,
        fully_sharded,
        sharded_optimizer,
        split_products,
        sub_groups,
        pipeline,
    )
}
