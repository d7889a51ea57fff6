"""What ranks send to each other, with the gradients that belong to it."""

# mypy: disable-error-code="no-untyped-call, no-any-return, misc"
# torch is typed in part only.

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def summed(x: Tensor, group: Any) -> Tensor:
    x = x.clone()
    if group is not None:
        dist.all_reduce(x, group=group)
    return x


def gathered(x: Tensor, group: Any, dimension: int) -> Tensor:
    if group is None:
        return x
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, x.contiguous(), group=group)
    return torch.cat(parts, dimension)


class Enter(torch.autograd.Function):
    """The same on all ranks; the gradients of all are added."""

    @staticmethod
    def forward(context: Any, x: Tensor, group: Any) -> Tensor:
        context.group = group
        return x.view_as(x)

    @staticmethod
    def backward(context: Any, *gradient: Tensor) -> tuple[Tensor, None]:
        return summed(gradient[0], context.group), None


class Leave(torch.autograd.Function):
    """The sum over all ranks."""

    @staticmethod
    def forward(_: Any, x: Tensor, group: Any) -> Tensor:
        return summed(x, group)

    @staticmethod
    def backward(_: Any, *gradient: Tensor) -> tuple[Tensor, None]:
        return gradient[0], None


class Whole(torch.autograd.Function):
    """The parts of all ranks side by side; of the gradient each takes its own part."""

    @staticmethod
    def forward(context: Any, x: Tensor, group: Any, dimension: int) -> Tensor:
        context.group, context.dimension = group, dimension
        return gathered(x, group, dimension)

    @staticmethod
    def backward(context: Any, *gradient: Tensor) -> tuple[Tensor, None, None]:
        if context.group is None:
            return gradient[0], None, None
        count, own = dist.get_world_size(context.group), dist.get_rank(context.group)
        return gradient[0].chunk(count, context.dimension)[own].contiguous(), None, None


class Lent(torch.autograd.Function):
    """The parts of all ranks side by side; gradients of each part are added where it is from."""

    @staticmethod
    def forward(context: Any, x: Tensor, group: Any, dimension: int) -> Tensor:
        context.group, context.dimension = group, dimension
        return gathered(x, group, dimension)

    @staticmethod
    def backward(context: Any, *gradient: Tensor) -> tuple[Tensor, None, None]:
        if context.group is None:
            return gradient[0], None, None
        count, own = dist.get_world_size(context.group), dist.get_rank(context.group)
        whole = summed(gradient[0], context.group)
        return whole.chunk(count, context.dimension)[own].contiguous(), None, None


class Share(torch.autograd.Function):
    """The sum over all ranks, of which each takes its own part; gradients are put together."""

    @staticmethod
    def forward(context: Any, x: Tensor, group: Any, dimension: int) -> Tensor:
        context.group, context.dimension = group, dimension
        count, own = dist.get_world_size(group), dist.get_rank(group)
        return summed(x, group).chunk(count, dimension)[own].contiguous()

    @staticmethod
    def backward(context: Any, *gradient: Tensor) -> tuple[Tensor, None, None]:
        return gathered(gradient[0], context.group, context.dimension), None, None


class Exchange(torch.autograd.Function):
    """Rows for every rank; ``sends`` and ``takes`` say how many."""

    @staticmethod
    def forward(context: Any, x: Tensor, group: Any, sends: list[int], takes: list[int]) -> Tensor:
        context.group, context.sends, context.takes = group, sends, takes
        return exchanged(x, group, sends, takes)

    @staticmethod
    def backward(context: Any, *gradient: Tensor) -> tuple[Tensor, None, None, None]:
        back = exchanged(gradient[0], context.group, context.takes, context.sends)
        return back, None, None, None


def exchanged(x: Tensor, group: Any, sends: list[int], takes: list[int]) -> Tensor:
    if group is None:
        return x
    result = x.new_empty(sum(takes), *x.shape[1:])
    dist.all_to_all_single(result, x.contiguous(), takes, sends, group=group)
    return result


class Turn(torch.autograd.Function):
    """Parts of a sequence with all heads for the whole sequence with some heads, or back."""

    @staticmethod
    def forward(context: Any, x: Tensor, group: Any, cut: int, join: int) -> Tensor:
        context.group, context.cut, context.join = group, cut, join
        return turned(x, group, cut, join)

    @staticmethod
    def backward(context: Any, *gradient: Tensor) -> tuple[Tensor, None, None, None]:
        back = turned(gradient[0], context.group, context.join, context.cut)
        return back, None, None, None


def turned(x: Tensor, group: Any, cut: int, join: int) -> Tensor:
    if group is None:
        return x
    count = dist.get_world_size(group)
    sent = torch.stack(x.contiguous().chunk(count, cut)).contiguous()
    taken = torch.empty(sent.shape, dtype=sent.dtype)
    dist.all_to_all_single(taken, sent, group=group)
    return torch.cat(list(taken.unbind(0)), join)
