"""How much further a result moves than the operands that were moved, both relative."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Any

import torch
from torch import Tensor

from msprobe_operators.call.arguments import tensors
from msprobe_operators.judge.tolerance import roundoff


def last_bit(operands: Any) -> float:
    """The largest roundoff among floating operands, 0 when there is none."""
    return max((roundoff(one.dtype) for one in tensors(operands)), default=0.0)


def growth(results: Iterable[Tensor], moved: Iterable[Tensor], relative: float) -> float:
    """The change of the results by their largest element, in units of ``relative``.

    A gradient that is zero by nature beside others that are not is no alarm. Infinite where all
    results are zero and change; NaN and infinity are left out.
    """
    size = change = 0.0
    for first, second in zip(results, moved, strict=True):
        one, other = first.detach(), second.detach()
        if not (one.is_floating_point() or one.is_complex()) or not one.numel():
            continue
        finite = torch.isfinite(one) & torch.isfinite(other)
        size = max(size, float(torch.where(finite, one.abs(), 0.0).max()))
        change = max(change, float(torch.where(finite, (one - other).abs(), 0.0).max()))
    return change / size / relative if size else (inf if change else 0.0)
