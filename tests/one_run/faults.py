"""Twelve faults of communication, each planted in a program that is correct without it."""

# mypy: disable-error-code="no-untyped-call, no-any-return, no-untyped-def, misc"
# torch is typed in part only.

from __future__ import annotations

import time

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from tests.one_run.programs import (
    WIDTH,
    WORLD,
    Block,
    Net,
    Program,
    average,
    batch_of,
    debugger_of,
    gradients,
    train,
)


def reduction_dropped(rank: int, path: str) -> None:
    """One gradient is not reduced, on no process."""

    def reduce(model: nn.Module) -> None:
        for number, gradient in enumerate(gradients(model)):
            if number != 8:  # blocks.1.up.weight
                dist.all_reduce(gradient)
                gradient.div_(WORLD)

    train(rank, path, reduce)


def reduction_doubled(rank: int, path: str) -> None:
    """One gradient is reduced twice."""

    def reduce(model: nn.Module) -> None:
        for number, gradient in enumerate(gradients(model)):
            dist.all_reduce(gradient)
            if number == 10:  # blocks.1.down.weight
                dist.all_reduce(gradient)
            gradient.div_(WORLD)

    train(rank, path, reduce)


def written_on_the_way(rank: int, path: str) -> None:
    """Process 2 scales a gradient whose reduction is on its way."""

    def reduce(model: nn.Module) -> None:
        own = gradients(model)
        if rank != 2:
            time.sleep(1)  # so that those of process 2 wait, and the last has not begun
        works = [dist.all_reduce(one, async_op=True) for one in own]
        if rank == 2:
            own[-2].mul_(0.5)
        for work in works:
            work.wait()
        torch._foreach_div_(own, float(WORLD))

    train(rank, path, reduce)


def wrong_divisor(rank: int, path: str) -> None:
    """Sums of four are divided by two."""

    def reduce(model: nn.Module) -> None:
        for gradient in gradients(model):
            dist.all_reduce(gradient)
            gradient.div_(WORLD // 2)

    train(rank, path, reduce)


def another_source(rank: int, path: str) -> None:
    """What process 0 broadcasts as a weight is that of another layer."""
    model = Net(seed=rank)
    x, y = batch_of(rank)
    debugger = debugger_of(path)
    update = torch.optim.SGD(model.parameters(), lr=0.1)
    with debugger.start(model):
        with torch.no_grad():
            own = list(model.parameters())
            for number, one in enumerate(own):
                is_wrong = rank == 0 and number == 8  # blocks.1.up.weight
                dist.broadcast(own[2] if is_wrong else one, src=0)
        mse_loss(model(x), y).backward()
        average(model)
        update.step()
    debugger.close()


def parts_exchanged(rank: int, path: str) -> None:
    """Process 1 puts two of the parts that it gathered in each other's place."""
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))
    own, rest = batch_of(rank), batch_of(WORLD)
    debugger = debugger_of(path)
    with debugger.start(model), torch.no_grad():
        hidden = model[0](own[0])
        parts = [torch.empty_like(hidden) for _ in range(WORLD)]
        dist.all_gather(parts, hidden)
        if rank == 1:
            parts[0], parts[2] = parts[2], parts[0]
        whole = torch.cat(parts)
        mse_loss(model[2](model[1](whole)), rest[1].repeat(WORLD, 1))
    debugger.close()


def replica_drifted(rank: int, path: str) -> None:
    """A bias of process 3 is off by a thousandth."""
    model = Net()
    if rank == 3:
        with torch.no_grad():
            model.blocks[1].up.bias.mul_(1.001)  # type: ignore[union-attr, operator]
    train(rank, path, average, model)


def another_micro_batch(rank: int, path: str) -> None:
    """Process 2 receives the second micro-batch into the memory of the first, still in use."""
    torch.manual_seed(20 + rank)
    model = Block()
    debugger = debugger_of(path)
    shared = torch.empty(8, WIDTH)
    with debugger.start(model), torch.no_grad():
        if rank == 2:
            works = [dist.irecv(shared, 1) for _ in range(2)]
            for work in reversed(works):
                work.wait()  # type: ignore[union-attr]
            for _ in range(2):
                dist.send(model(shared), 3)
        else:
            for number in range(2):
                x = batch_of(number)[0] if rank == 0 else torch.empty(8, WIDTH)
                if rank:
                    dist.recv(x, rank - 1)
                out = model(x)
                if rank < WORLD - 1:
                    dist.send(out, rank + 1)
    debugger.close()


def wrong_part(rank: int, path: str) -> None:
    """Process 2 gives the parts of its gradient in another order to be reduced and scattered."""
    model = Net()
    x, y = batch_of(rank)
    debugger = debugger_of(path)
    with debugger.start(model):
        mse_loss(model(x), y).backward()
        flat = torch.cat([one.reshape(-1) for one in gradients(model)])
        parts = list(torch.nn.functional.pad(flat, (0, -len(flat) % WORLD)).chunk(WORLD))
        if rank == 2:
            parts = [*parts[1:], parts[0]]
        own = torch.empty_like(parts[0])
        dist.reduce_scatter(own, parts)
        own.div_(WORLD)
    debugger.close()


def sum_for_a_mean(rank: int, path: str) -> None:
    """One gradient of many is not divided."""

    def reduce(model: nn.Module) -> None:
        for number, gradient in enumerate(gradients(model)):
            dist.all_reduce(gradient)
            if number != 14:  # blocks.2.up.weight
                gradient.div_(WORLD)

    train(rank, path, reduce)


class SharedNorm(nn.Module):
    """Normalises by what all processes have; ``is_apart`` goes on with its own."""

    def __init__(self, is_apart: bool) -> None:
        super().__init__()
        self.is_apart = is_apart

    def forward(self, x: Tensor) -> Tensor:
        sums = torch.stack([x.mean(0), x.square().mean(0)])
        dist.all_reduce(sums.clone() if self.is_apart else sums)
        mean, square = sums / (1 if self.is_apart else WORLD)
        return (x - mean) * torch.rsqrt(square - mean.square() + 1e-5)


def norm_apart(rank: int, path: str) -> None:
    """One layer of process 1 normalises by what it has alone."""
    torch.manual_seed(5)
    layers: list[nn.Module] = []
    for number in range(3):
        layers += [nn.Linear(WIDTH, WIDTH), SharedNorm(rank == 1 and number == 1)]
    model = nn.Sequential(*layers, nn.Linear(WIDTH, 4))
    x, y = batch_of(rank)
    debugger = debugger_of(path)
    with debugger.start(model), torch.no_grad():
        mse_loss(model(x), y)
    debugger.close()


class Forgetful(Block):
    """A block that does not add what it was given."""

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.relu(self.up(self.norm(x))))


def residual_dropped(rank: int, path: str) -> None:
    """One block of process 2 does not add what it was given."""
    model = Net()
    if rank == 2:
        forgetful = Forgetful()
        forgetful.load_state_dict(model.blocks[1].state_dict())
        forgetful.__class__.__name__ = "Block"
        model.blocks[1] = forgetful
    train(rank, path, average, model)


FAULTS: dict[str, Program] = {
    one.__name__: one
    for one in (
        reduction_dropped,
        reduction_doubled,
        written_on_the_way,
        wrong_divisor,
        another_source,
        parts_exchanged,
        replica_drifted,
        another_micro_batch,
        wrong_part,
        sum_for_a_mean,
        norm_apart,
        residual_dropped,
    )
}
