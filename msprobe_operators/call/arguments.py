"""Arguments and results of calls: nested containers with tensors in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from msprobe_builder.facts.fact import Fact, fact
from msprobe_operators.call.operator import by_name, written_arguments

# Layouts and kinds of tensors whose values cannot simply be read and copied.
_PLAIN = (Tensor, torch.nn.Parameter)


def map_tensors(value: Any, change: Callable[[Tensor], Any]) -> Any:
    """The same containers with ``change`` applied to every tensor."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, tuple):
        items = [map_tensors(item, change) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, list):
        return [map_tensors(item, change) for item in value]
    if isinstance(value, dict):
        return {key: map_tensors(item, change) for key, item in value.items()}
    return value


def tensors(value: Any) -> Iterator[Tensor]:
    """All tensors in nested containers, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors(item)


def why_unreadable(value: Any) -> Fact | None:
    """Why a call with these arguments or results cannot be run again, None when it can."""
    for tensor in tensors(value):
        if type(tensor) not in _PLAIN:
            return fact("operator.own_kind", kind=type(tensor).__name__)
        if tensor.layout != torch.strided:
            return fact("operator.layout", layout=str(tensor.layout).removeprefix("torch."))
        if tensor.device.type == "meta":
            return fact("operator.no_values")
        if tensor.is_quantized:
            return fact("operator.quantized")
    return None


def before_the_call(
    operator: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments as they are now, safe from what the call writes.

    Only tensors whose memory the operator may write are copied; the others are shared. Views of
    one memory stay views of one copy's memory only where that does not matter: an operand that
    overlaps a written one is copied too.
    """
    written = written_arguments(operator)
    if not written:
        return args, kwargs
    named = by_name(operator, args, kwargs)
    storages = {
        tensor.untyped_storage().data_ptr()
        for name in written
        for tensor in tensors(named.get(name))
    }

    def keep(tensor: Tensor) -> Tensor:
        if tensor.untyped_storage().data_ptr() in storages:
            return tensor.detach().clone()
        return tensor

    return map_tensors(args, keep), map_tensors(kwargs, keep)


def signature(operator: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    """What makes two calls alike: operator, shapes, dtypes, devices and other arguments."""

    def alike(value: Any) -> object:
        if isinstance(value, Tensor):
            return (tuple(value.shape), value.dtype, value.device.type, value.is_contiguous())
        if isinstance(value, (tuple, list)):
            return tuple(alike(item) for item in value)
        if isinstance(value, dict):
            return tuple((key, alike(item)) for key, item in sorted(value.items()))
        return value if isinstance(value, (int, float, str, bool, type(None))) else repr(value)

    return (operator, alike(args), alike(kwargs))
