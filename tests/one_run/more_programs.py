"""Further correct programs of four processes, in which ranks do unlike things for good reasons."""

# mypy: disable-error-code="no-untyped-call, no-any-return, no-untyped-def, misc"
# torch is typed in part only.

from __future__ import annotations

from typing import Any

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
    nothing,
    train,
)


def kept_gradients(rank: int, path: str) -> None:
    """Two passes are added up in memory of their own, reduced there, and weights updated by it."""
    model = Net()
    kept = [torch.zeros_like(one) for one in model.parameters()]
    debugger = debugger_of(path)
    with debugger.start(model):
        for number in range(2):
            x, y = batch_of(rank + WORLD * number)
            (mse_loss(model(x), y) / 2).backward()
            for total, one in zip(kept, model.parameters(), strict=True):
                assert one.grad is not None
                total.add_(one.grad)
                one.grad = None
        flat = torch.cat([one.view(-1) for one in kept]).div_(WORLD)
        dist.all_reduce(flat)
        place = 0
        with torch.no_grad():
            for one in model.parameters():
                one.sub_(0.1 * flat[place : place + one.numel()].view_as(one))
                place += one.numel()
    debugger.close()


def trained_apart(rank: int, path: str) -> None:
    """Each process updates its weights by its own gradients; they are averaged later."""
    model = Net()
    update = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger = debugger_of(path)
    with debugger.start(model):
        for number in range(2):
            x, y = batch_of(rank + WORLD * number)
            mse_loss(model(x), y).backward()
            update.step()
            update.zero_grad()
        with torch.no_grad():
            for one in model.parameters():
                dist.all_reduce(one)
                one.div_(WORLD)
    debugger.close()


class Experts(nn.Module):
    """Samples go to the process that has their expert, and back; each has another number."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, WORLD)
        torch.manual_seed(50 + rank)
        self.expert = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        chosen = self.router(x).argmax(1)
        order = chosen.argsort(stable=True)
        sent = torch.bincount(chosen, minlength=WORLD)
        got = torch.empty_like(sent)
        dist.all_to_all_single(got, sent)
        sizes = sent.tolist(), got.tolist()
        inside = torch.empty(sum(sizes[1]), WIDTH)
        dist.all_to_all_single(inside, x[order].contiguous(), sizes[1], sizes[0])
        made = self.expert(inside) if len(inside) else inside
        back = torch.empty_like(x)
        dist.all_to_all_single(back, made.contiguous(), sizes[0], sizes[1])
        return x + back[order.argsort()]


def experts(rank: int, path: str) -> None:
    """A layer whose experts are spread over the processes."""
    torch.manual_seed(4)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), Experts(rank), nn.Linear(WIDTH, 4))
    torch.manual_seed(6)
    model[2].reset_parameters()  # type: ignore[operator]
    debugger = debugger_of(path)
    with debugger.start(model), torch.no_grad():
        mse_loss(model(batch_of(rank)[0]), batch_of(rank)[1])
    debugger.close()


def one_that_reports(rank: int, path: str) -> None:
    """Process 0 alone looks at the loss and its parts, between reductions of all."""
    model = Net()
    x, y = batch_of(rank)
    debugger = debugger_of(path)
    update = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with debugger.start(model):
        loss = mse_loss(model(x), y)
        loss.backward()
        total = loss.detach().clone()
        dist.reduce(total, 0)
        if rank == 0:
            print(f"{(total / WORLD).exp().item():.3f}", torch.stack([total, total]).sum().item())
        average(model)
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        update.step()
    debugger.close()


def compressed(rank: int, path: str) -> None:
    """DistributedDataParallel sends bfloat16."""

    def send(_, bucket):
        small = bucket.buffer().to(torch.bfloat16).div_(WORLD)
        work: Any = dist.all_reduce(small, async_op=True)
        return work.get_future().then(lambda done: bucket.buffer().copy_(done.value()[0]))

    model = nn.parallel.DistributedDataParallel(Net())
    model.register_comm_hook(None, send)
    train(rank, path, nothing, model, optimizer=lambda own: torch.optim.Adam(own, foreach=True))


def made_together(rank: int, path: str) -> None:
    """Reductions that are gathered and made together when the last was asked for."""

    def reduce(model: nn.Module) -> None:
        with dist._coalescing_manager():  # type: ignore[attr-defined]
            for gradient in gradients(model):
                dist.all_reduce(gradient)
        for gradient in gradients(model):
            gradient.div_(WORLD)

    train(rank, path, reduce)


def as_a_barrier(rank: int, path: str) -> None:
    """A sum of ones that serves to wait, over and over, and lengths that are not learnt."""
    ones = torch.ones(4)

    def reduce(model: nn.Module) -> None:
        for _ in range(3):
            dist.all_reduce(ones)
        lengths = torch.arange(5) + rank
        dist.all_reduce(lengths)
        dist.all_reduce(lengths, op=dist.ReduceOp.MAX)
        average(model)

    train(rank, path, reduce)


class Deep(nn.Module):
    """Blocks of which each process leaves out another."""

    def __init__(self, without: int) -> None:
        super().__init__()
        torch.manual_seed(8)
        self.without = without
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, x: Tensor) -> Tensor:
        for number, block in enumerate(self.blocks):
            if number != self.without:
                x = x + block(x)
        return self.head(x)


def stochastic_depth(rank: int, path: str) -> None:
    """Process 2 leaves out a block, as chance would have it."""
    model = Deep(1 if rank == 2 else -1)

    def reduce(model: nn.Module) -> None:
        for one in model.parameters():
            if one.grad is None:
                one.grad = torch.zeros_like(one)
        average(model)

    train(rank, path, reduce, model)


class Scattered(torch.autograd.Function):
    """Sums forward, of which each process keeps its samples; gathers backward."""

    @staticmethod
    def forward(_: Any, x: Tensor) -> Tensor:
        own = torch.empty(len(x) // WORLD, *x.shape[1:])
        dist.reduce_scatter_tensor(own, x.contiguous())
        return own

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> Tensor:
        whole = torch.empty(WORLD * len(gradient), *gradient.shape[1:])
        dist.all_gather_into_tensor(whole, gradient.contiguous())
        return whole


class Gathered(torch.autograd.Function):
    """Gathers the samples of all forward; sums backward."""

    @staticmethod
    def forward(_: Any, x: Tensor) -> Tensor:
        whole = torch.empty(WORLD * len(x), *x.shape[1:])
        dist.all_gather_into_tensor(whole, x.contiguous())
        return whole

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> Tensor:
        own = torch.empty(len(gradient) // WORLD, *gradient.shape[1:])
        dist.reduce_scatter_tensor(own, gradient.contiguous())
        return own


class SequenceBlock(nn.Module):
    """A block whose norm works on a part of the samples, its products on a part of the width."""

    def __init__(self, rank: int, seed: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        torch.manual_seed(seed)
        up, down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        size = 2 * WIDTH // WORLD
        own = slice(rank * size, (rank + 1) * size)
        self.up = nn.Parameter(up.weight.data[own].clone())
        self.bias = nn.Parameter(torch.zeros(size))
        self.down = nn.Parameter(down.weight.data[:, own].clone())

    def forward(self, x: Tensor) -> Tensor:
        inner = torch.relu(nn.functional.linear(Gathered.apply(self.norm(x)), self.up, self.bias))
        return x + Scattered.apply(nn.functional.linear(inner, self.down))


def split_sequence(rank: int, path: str) -> None:
    """Sequence parallel: gradients of norms alone are reduced, and steps follow each other."""
    model = nn.Sequential(*(SequenceBlock(rank, seed) for seed in range(3)))
    debugger = debugger_of(path)
    update = torch.optim.SGD(model.parameters(), lr=0.1)
    for number in range(2):
        x = batch_of(number, 8)[0].chunk(WORLD)[rank]
        with debugger.start(model):
            model(x).square().mean().backward()
            for block in model:
                for one in block.norm.parameters():  # type: ignore[union-attr]
                    dist.all_reduce(one.grad)
            update.step()
            update.zero_grad()
        debugger.step()
    debugger.close()


def two_stages(rank: int, path: str) -> None:
    """Two stages of two replicas each; the first and last share a matrix."""
    stage, replica = divmod(rank, 2)
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    ends = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    torch.manual_seed(30 + stage)
    block = Block()
    torch.manual_seed(9)
    shared = nn.Linear(WIDTH, WIDTH, bias=False)
    model = nn.ModuleDict({"block": block, "shared": shared})
    debugger = debugger_of(path)
    update = torch.optim.SGD(model.parameters(), lr=0.1)
    other = (rank + 2) % WORLD
    with debugger.start(model):
        if stage == 0:
            made = block(shared(batch_of(replica)[0]))
            dist.send(made.detach(), other)
            gradient = torch.empty_like(made)
            dist.recv(gradient, other)
            made.backward(gradient)
        else:
            x = torch.empty(8, WIDTH)
            dist.recv(x, other)
            x.requires_grad_()
            shared(block(x)).square().mean().backward()
            assert x.grad is not None
            dist.send(x.grad, other)
        dist.all_reduce(shared.weight.grad, group=ends[replica])
        for gradient in gradients(model):
            dist.all_reduce(gradient, group=pairs[stage])
            gradient.div_(2)
        update.step()
    debugger.close()


def own_masks(rank: int, path: str) -> None:
    """Dropout by each process's own chance; some gradients are scaled, some clipped."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Dropout(0.3), Net())
    torch.manual_seed(70 + rank)

    def reduce(model: nn.Module) -> None:
        average(model)
        gradients(model)[0].mul_(0.1)
        gradients(model)[3].clamp_(-1e-3, 1e-3)

    train(rank, path, reduce, model)


def one_partition_each(rank: int, path: str) -> None:
    """ZeroRedundancyOptimizer: each weight is updated by one process, which broadcasts it."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    def sharded(own: Any) -> Any:
        return ZeroRedundancyOptimizer(own, torch.optim.Adam, lr=0.01)

    train(rank, path, nothing, nn.parallel.DistributedDataParallel(Net()), optimizer=sharded)


MORE: dict[str, Program] = {
    one.__name__: one
    for one in (
        kept_gradients,
        trained_apart,
        experts,
        one_that_reports,
        compressed,
        made_together,
        as_a_barrier,
        stochastic_depth,
        split_sequence,
        two_stages,
        own_masks,
        one_partition_each,
    )
}
