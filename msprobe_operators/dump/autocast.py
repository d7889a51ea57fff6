"""Calls under autocast: their operands are wider than what they were computed in.

A dump does not say that autocast was on; a result narrower than an operand does, where the call
was not asked for another type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from msprobe_builder.operators.operator import Kind
from msprobe_builder.operators.table import operator_of
from msprobe_operators.call.arguments import tensors
from msprobe_operators.dump.calls import RecordedCall
from msprobe_operators.dump.operands import Operands

_HALF_PRECISION = {str(one): one for one in (torch.float16, torch.bfloat16)}


def computed_in(call: RecordedCall, given: Operands) -> torch.dtype | None:
    """The half precision in which autocast had a call computed; None where it had not."""
    if is_cast(call.in_torch):
        return None
    asked = (*given.args, *given.kwargs.values())
    if any(isinstance(one, torch.dtype) for one in asked):
        return None
    outputs = call.record.get("output")
    leaves = outputs if isinstance(outputs, list) else []
    found = {_HALF_PRECISION.get(str(one.get("dtype"))) for one in leaves if isinstance(one, dict)}
    floating = [one for one in tensors((given.args, given.kwargs)) if one.is_floating_point()]
    if len(found) != 1 or all(one.itemsize <= 2 for one in floating):
        return None
    return found.pop()


def is_cast(name: str) -> bool:
    """Whether the call ``name`` asks for another type itself."""
    return operator_of(name.rpartition(".")[0]).kind is Kind.CAST


def as_computed(
    function: Callable[..., Any], dtype: torch.dtype | None, device: torch.device
) -> Callable[..., Any]:
    """The function as autocast to ``dtype`` makes it; itself without."""
    if dtype is None:
        return function

    def under_autocast(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast(device.type, dtype=dtype):
            return function(*args, **kwargs)

    return under_autocast


def rounded(gradients: list[Tensor | None], dtype: torch.dtype | None) -> list[Tensor | None]:
    """Gradients of wide operands, which hold no more than the half they were computed in."""
    if dtype is None:
        return gradients
    return [
        one if one is None or not one.is_floating_point() else one.detach().to(dtype)
        for one in gradients
    ]
