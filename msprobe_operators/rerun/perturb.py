"""Changing the operands of a call a little: in their last bits, their order, their precision."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from msprobe_builder.operators.operator import Kind
from msprobe_builder.operators.questions import is_exact
from msprobe_operators.call.allowed import known_row
from msprobe_operators.call.arguments import map_tensors
from msprobe_operators.call.operator import (
    base_name,
    is_random,
    is_uninitialised,
    is_view,
    row_of,
    written_arguments,
)

_SEED = 20240607


def perturbed(
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    relative: float,
    *,
    scalars: bool = True,
    draw: int = 0,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Every floating operand x as x · (1 + relative · u), u uniform in [-1, 1].

    Integers and bools are kept: they choose or count. With ``scalars`` numbers that are no whole
    ones change too, since kernels round them to the tensors' dtype. A draw of one number is always
    the same and leaves torch's generators alone.
    """
    source = torch.Generator().manual_seed(_SEED + 2 * draw)

    def noise(tensor: Tensor) -> Tensor:
        if not (tensor.is_floating_point() or tensor.is_complex()):
            return tensor
        shape, real = tensor.shape, torch.float64
        u = torch.rand(shape, generator=source, dtype=real).to(tensor.device) * 2 - 1
        wide = tensor.to(torch.complex128 if tensor.is_complex() else real)
        return (wide * (1 + relative * u)).to(tensor.dtype)

    def change(value: Any) -> Any:
        if isinstance(value, float) and scalars and not value.is_integer():
            return value * (1 + relative * (2 * float(torch.rand((), generator=source)) - 1))
        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            return type(value)(change(item) for item in value)
        return value

    changed = tuple(change(value) for value in map_tensors(args, noise))
    return changed, {key: change(value) for key, value in map_tensors(kwargs, noise).items()}


def reordered(operator: OpOverload, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Operands whose sums run backwards; None for operators where no order is known.

    The result is the same number added up in another order.
    """
    name = base_name(operator)
    if name in ("mm", "bmm", "addmm", "baddbmm"):
        *before, left, right = args[: 2 if name in ("mm", "bmm") else 3]
        rest = args[len(before) + 2 :]
        return (*before, left.flip(-1), right.flip(-2), *rest)
    if name in ("sum", "mean") and args[0].dim():
        if len(args) > 1 and args[1]:
            return (args[0].flip(tuple(args[1])), *args[1:])
        if len(args) == 1 or not args[1]:
            return (args[0].flip(tuple(range(args[0].dim()))), *args[1:])
    return None


class RoundedSteps(TorchDispatchMode):
    """While it is on, every step of a float64 computation is off by up to ``relative``.

    Operators that are composed of others are taken apart first, so that what cancels inside them
    shows: the gradient of a normalisation may be zero by nature and still be computed as the
    difference of large numbers. Views, copies and writes in place stay exact.
    """

    def __init__(self, relative: float, draw: int = 0) -> None:
        super().__init__()
        self._relative = relative
        self._source = torch.Generator().manual_seed(_SEED + 2 * draw + 1)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        from torch._decomp import decomposition_table

        kwargs = {} if kwargs is None else kwargs
        if not isinstance(func, OpOverload) or is_view(func) or is_uninitialised(func):
            return func(*args, **kwargs)
        if written_arguments(func) or is_random(func) or _is_kept(func):
            return func(*args, **kwargs)
        parts = decomposition_table.get(func)
        if parts is not None and _cancels(func):
            try:
                with self:
                    return parts(*args, **kwargs)
            except Exception:  # a composition that does not take these operands
                return self._moved(func(*args, **kwargs))
        return self._moved(func(*args, **kwargs))

    def _moved(self, result: Any) -> Any:
        def move(tensor: Tensor) -> Tensor:
            if tensor.dtype is not torch.float64:
                return tensor
            u = torch.rand(tensor.shape, generator=self._source, dtype=torch.float64) * 2 - 1
            return tensor * (1 + self._relative * u.to(tensor.device))

        return map_tensors(result, move)


class ReorderedSums(TorchDispatchMode):
    """While it is on, products of matrices and sums are added up backwards.

    ``reversed_sums`` counts them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reversed_sums = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        backwards = reordered(func, args) if isinstance(func, OpOverload) else None
        self.reversed_sums += backwards is not None
        return func(*(args if backwards is None else backwards), **(kwargs or {}))


def _is_kept(operator: OpOverload) -> bool:
    """Whether its results are operands in another place, or of another type."""
    row = row_of(operator)
    return is_exact(row) or row.kind is Kind.CAST


def _cancels(operator: OpOverload) -> bool:
    """Whether a kernel takes differences of large numbers inside, or a gradient of such a one."""
    row = known_row(base_name(operator))
    return row is not None and "cancels" in row.traits
