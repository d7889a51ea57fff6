"""How far two right results of one call may lie apart.

Sources: unit roundoffs u = 2^-p of IEEE 754 binary16, binary32 and binary64, of bfloat16 and of
the OCP 8-bit formats; the growth of rounding with the length n of a sum, about √n for errors
that do not conspire (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition,
sections 2.8 and 4.2).
"""

from __future__ import annotations

from math import prod, sqrt
from typing import Any

import torch
from torch import Tensor

from msprobe_builder.operators.questions import is_exact
from msprobe_builder.operators.table import operator_of
from msprobe_operators.call.arguments import tensors

# Half the distance of 1 to the next number.
ROUNDOFF: dict[torch.dtype, float] = {
    torch.float64: 2.0**-53,
    torch.complex128: 2.0**-53,
    torch.float32: 2.0**-24,
    torch.complex64: 2.0**-24,
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-8,
    torch.float8_e4m3fn: 2.0**-4,
    torch.float8_e5m2: 2.0**-3,
}

# What sums of lower precision are kept in.
_SUMS = torch.float32


def roundoff(dtype: torch.dtype) -> float:
    """u of a floating dtype, 0 of the others."""
    return ROUNDOFF.get(dtype, 0.0)


def length_of_sums(name: str, args: Any, result: Any) -> int:
    """How many products or numbers are added up for one element of the result, about."""
    operands = [t for t in tensors(args) if t.is_floating_point() or t.is_complex()]
    results = list(tensors(result))
    if not operands or not results:
        return 1
    traits = operator_of(f"Aten.{name}").traits
    place = 1 if "adds_product" in traits else 0  # of the factor whose last dimension is summed
    if "sums_last" in traits and place < len(operands) and operands[place].dim():
        return int(operands[place].shape[-1])
    if "conv" in name and len(operands) > 1:
        return max(int(prod(operands[1].shape[1:])), _shrinkage(operands, results))
    if "attention" in name and operands[0].dim() > 1:
        rows, columns = operands[0].shape[-2:]
        return max(int(rows), int(columns), _shrinkage(operands, results))
    if "softmax" in name or "norm" in name or "logsumexp" in name or "cumsum" in name:
        return max(int(max(operands[0].shape, default=1)), _shrinkage(operands, results))
    return _shrinkage(operands, results)


def factors(name: str, dtype: torch.dtype, length: int) -> tuple[float, float]:
    """Allowed error in units of u(dtype): times the result, and times what u moves it by."""
    operator = operator_of(f"Aten.{name.removesuffix('_copy')}")
    if is_exact(operator):
        return 0.0, 0.0
    u = roundoff(dtype)
    if u == 0.0:
        return 0.0, 0.0
    growth = sqrt(length) * min(1.0, roundoff(_SUMS) / u)
    # Of sums of squares, and backward, where gradients may all be alike, all terms push the same
    # way, so that their errors add up.
    if "one_signed" in operator.traits or name.endswith("_backward"):
        growth *= 4
    return 8.0 + growth, 8.0 + 2 * growth


def _shrinkage(operands: list[Tensor], results: list[Tensor]) -> int:
    smallest = min((t.numel() for t in results if t.numel()), default=1)
    return max(1, max(t.numel() for t in operands) // smallest)
