"""Where a process sits among the others, and what they say to each other."""

# mypy: disable-error-code="no-untyped-call, no-any-return, misc, attr-defined"
# torch is typed in part only.

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import _functional_collectives as collectives
from torch.distributed.device_mesh import init_device_mesh


class Seat:
    """Coordinates in a mesh; an axis of one rank has no group."""

    pp: int
    dp: int
    cp: int
    tp: int
    my_pp: int
    my_dp: int
    my_cp: int
    my_tp: int

    def __init__(self, **sizes: int) -> None:
        names = ("pp", "dp", "cp", "tp")
        shape = tuple(sizes.get(name, 1) for name in names)
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
        self.mesh, self.number = mesh, dist.get_rank()
        for name, size in zip(names, shape, strict=True):
            setattr(self, name, size)
            setattr(self, f"my_{name}", mesh.get_local_rank(name))
        self.groups = {
            name: mesh.get_group(name) if getattr(self, name) > 1 else None for name in names
        }

    def slice(self, whole: Tensor, dimension: int) -> Tensor:
        """The part of this tensor-parallel rank."""
        return whole.tensor_split(self.tp, dimension)[self.my_tp].clone()


class CopyIn(torch.autograd.Function):
    """Backward all-reduce."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        ctx.group = group
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        grad = grads[0].contiguous()
        dist.all_reduce(grad, group=ctx.group)
        return grad, None


class SumOut(torch.autograd.Function):
    """Forward all-reduce."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        x = x.clone()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0], None


class Shift(torch.autograd.Function):
    """To the next in a ring and from the one before; gradients go the other way."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        ctx.group = group
        return _around(x, group, 1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return _around(grads[0], ctx.group, -1), None


def _around(x: Tensor, group: Any, way: int) -> Tensor:
    ranks = dist.get_process_group_ranks(group)
    mine = ranks.index(dist.get_rank())
    got, x = torch.empty_like(x.contiguous()), x.contiguous()
    to, source = ranks[(mine + way) % len(ranks)], ranks[(mine - way) % len(ranks)]
    ops = [dist.P2POp(dist.isend, x, to, group), dist.P2POp(dist.irecv, got, source, group)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    return got


# Newer torch has other names for them.
_GATHER: Any = getattr(
    collectives, "all_gather_single_autograd", collectives.all_gather_tensor_autograd
)
_SCATTER: Any = getattr(
    collectives, "reduce_scatter_single_autograd", collectives.reduce_scatter_tensor_autograd
)


def copy_in(x: Tensor, group: Any) -> Tensor:
    return x if group is None else CopyIn.apply(x, group)


def sum_out(x: Tensor, group: Any) -> Tensor:
    return x if group is None else SumOut.apply(x, group)


def gather_in(x: Tensor, group: Any, dimension: int = 0) -> Tensor:
    """Forward all-gather, backward reduce-scatter."""
    return x if group is None else _GATHER(x.contiguous(), dimension, group)


def scatter_out(x: Tensor, group: Any, dimension: int = 0) -> Tensor:
    """Forward reduce-scatter, backward all-gather."""
    if group is None:
        return x
    return _SCATTER(x.contiguous(), "sum", dimension, group)
