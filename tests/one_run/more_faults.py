"""Further faults of communication, planted in the further programs and in split products."""

# mypy: disable-error-code="no-untyped-call, no-any-return, no-untyped-def, misc"
# torch is typed in part only.

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import mse_loss

from tests.one_run.more_programs import SequenceBlock
from tests.one_run.programs import (
    WIDTH,
    WORLD,
    Net,
    Program,
    SplitBlock,
    average,
    batch_of,
    debugger_of,
    gradients,
    train,
)


def largest_for_the_sum(rank: int, path: str) -> None:
    """One gradient is reduced to the largest."""

    def reduce(model: nn.Module) -> None:
        for number, gradient in enumerate(gradients(model)):
            is_wrong = number == 8  # blocks.1.up.weight
            dist.all_reduce(gradient, dist.ReduceOp.MAX if is_wrong else dist.ReduceOp.SUM)
            gradient.div_(WORLD)

    train(rank, path, reduce)


def a_copy_reduced(rank: int, path: str) -> None:
    """Process 1 has a copy of one gradient reduced, and updates by its own."""

    def reduce(model: nn.Module) -> None:
        for number, gradient in enumerate(gradients(model)):
            dist.all_reduce(gradient.clone() if (rank, number) == (1, 4) else gradient)
            gradient.div_(WORLD)

    train(rank, path, reduce)


def bucket_overwritten(rank: int, path: str) -> None:
    """Process 3 puts the gradients of the first block where those of the second belong."""

    def reduce(model: nn.Module) -> None:
        own = gradients(model)
        flat = torch.cat([one.reshape(-1) for one in own])
        dist.all_reduce(flat)
        parts = flat.split([one.numel() for one in own])
        for number, gradient in enumerate(own):
            part = parts[number - 6 if rank == 3 and number == 8 else number]
            gradient.copy_(part.view_as(gradient)).div_(WORLD)

    train(rank, path, reduce)


def forward_sum_dropped(rank: int, path: str) -> None:
    """One layer of split products is not summed, on no process."""

    class Unsummed(SplitBlock):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            inner = torch.relu(nn.functional.linear(self.norm(x), self.up, self.up_bias))
            return x + (nn.functional.linear(inner, self.down) + self.down_bias)

    torch.manual_seed(3)
    model = nn.Sequential(*(SplitBlock(rank, WORLD) for _ in range(3)), nn.Linear(WIDTH, 4))
    wrong = Unsummed(rank, WORLD)
    wrong.__class__.__name__ = "SplitBlock"
    model[1] = wrong
    x, y = batch_of(0)
    debugger = debugger_of(path)
    with debugger.start(model), torch.no_grad():
        mse_loss(model(x), y)
    debugger.close()


def norms_not_reduced(rank: int, path: str) -> None:
    """Sequence parallel whose gradients of one norm are not reduced; seen in the second step."""
    model = nn.Sequential(*(SequenceBlock(rank, seed) for seed in range(3)))
    debugger = debugger_of(path)
    update = torch.optim.SGD(model.parameters(), lr=0.1)
    for number in range(2):
        x = batch_of(number, 8)[0].chunk(WORLD)[rank]
        with debugger.start(model):
            model(x).square().mean().backward()
            for place, block in enumerate(model):
                for one in block.norm.parameters() if place != 1 else ():  # type: ignore[union-attr]
                    dist.all_reduce(one.grad)
            update.step()
            update.zero_grad()
        debugger.step()
    debugger.close()


def updated_twice(rank: int, path: str) -> None:
    """Process 2 makes another step with one weight."""
    model = Net()
    update = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = batch_of(rank)
    debugger = debugger_of(path)
    for _ in range(2):
        with debugger.start(model):
            mse_loss(model(x), y).backward()
            average(model)
            update.step()
            if rank == 2:
                own = list(model.parameters())[2]
                with torch.no_grad():
                    own.sub_(0.1 * gradients(model)[2])
            update.zero_grad()
        debugger.step()
    debugger.close()


MORE_FAULTS: dict[str, Program] = {
    one.__name__: one
    for one in (
        largest_for_the_sum,
        a_copy_reduced,
        bucket_overwritten,
        forward_sum_dropped,
        norms_not_reduced,
        updated_twice,
    )
}
