"""What a faulty conversion did to a parameter, where the numbers themselves tell."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msprobe_builder.facts.fact import Fact, fact

if TYPE_CHECKING:
    import torch

_CLOSE = 1e-2  # ‖a − b‖ / ‖b‖ up to which two tensors are the same but for rounding
_LARGEST = 1 << 28  # elements; larger tensors are not searched
_CLEARLY = 10  # how many times nearer another tensor must be
_PART = 0.75  # of the rows
_SAME = 4e-3  # of a row, what bfloat16 rounds off


def cause_of(x: torch.Tensor, y: torch.Tensor) -> Fact | None:
    """Why two tensors differ: halves exchanged, transposed, rows in another order, a factor.

    None when none of these explains it.
    """
    if x.is_complex() or y.is_complex() or x.numel() != y.numel() or not 1 < x.numel() <= _LARGEST:
        return None
    x, y = x.float(), y.float()
    if not (bool(x.isfinite().all()) and bool(y.isfinite().all())):
        return fact("checkpoint.not_finite")
    if x.dim() == 2 and x.shape == y.shape[::-1] and x.shape != y.shape:
        return fact("checkpoint.transposed") if _is_close(x.T, y) else None
    if x.shape != y.shape:
        is_alike = _is_close(x.reshape(-1), y.reshape(-1))
        return fact("checkpoint.reshaped") if is_alike else None
    # Weights of norms are near each other, in whatever order.
    nearest = float((x - y).norm()) / _CLEARLY
    if x.dim() == 2 and x.shape[0] == x.shape[1] and _is_close(x.T, y, nearest):
        return fact("checkpoint.transposed")
    if x.shape[0] % 2 == 0 and _is_close(x.roll(x.shape[0] // 2, 0), y, nearest):
        return fact("checkpoint.halves")
    if _is_close(-x, y):
        return fact("checkpoint.sign")
    return _order_of_rows(x, y) or _factor(x, y)


def is_nearer(x: torch.Tensor, y: torch.Tensor, share: float | None) -> bool:
    """Whether a tensor is another one up to rounding, and clearly not the one it should be.

    ``share`` is how far it is from that, ‖a − b‖ / ‖b‖: weights of norms are near each other.
    """
    if x.shape != y.shape or x.is_complex():
        return False
    x, y = x.float(), y.float()
    return _is_close(x, y, math.inf if share is None else share * float(y.norm()) / _CLEARLY)


def differing_part(x: torch.Tensor, y: torch.Tensor) -> Fact | None:
    """Which rows or columns differ, when they lie together and the others agree: one rank's part.

    None when most of a tensor differs.
    """
    if x.dim() != 2 or x.shape != y.shape or x.is_complex() or x.numel() > _LARGEST:
        return None
    x, y = x.float(), y.float()
    for axis in (1, 0):
        apart = (x - y).norm(dim=axis) > _SAME * y.norm(dim=axis)
        wrong = apart.nonzero().flatten().tolist()
        count = len(apart)
        is_together = wrong and wrong[-1] - wrong[0] == len(wrong) - 1
        if is_together and 1 < len(wrong) <= _PART * count:
            code = "checkpoint.rows" if axis == 1 else "checkpoint.columns"
            return fact(code, first=wrong[0], last=wrong[-1], count=count)
    return None


def _is_close(x: torch.Tensor, y: torch.Tensor, nearest: float = math.inf) -> bool:
    norm, apart = float(y.norm()), float((x - y).norm())
    return norm > 0 and apart <= _CLOSE * norm and apart <= nearest


def _order_of_rows(x: torch.Tensor, y: torch.Tensor) -> Fact | None:
    """Rows are recognised by their norms and confirmed element by element."""
    if x.dim() != 2 or x.shape[0] < 2:
        return None
    import torch

    first, second = x.norm(dim=1).argsort(), y.norm(dim=1).argsort()
    left = float((x[first] - y[second]).norm())
    # Trained a little further rows are close as they are, and their norms may change places.
    if left > _CLOSE * float(y.norm()) or left > float((x - y).norm()) / 2:
        return None
    order = torch.empty_like(first)
    order[second] = first
    moved = int((order != torch.arange(len(order))).sum())
    return fact("checkpoint.order", moved=moved, count=len(order))


def _factor(x: torch.Tensor, y: torch.Tensor) -> Fact | None:
    scale = float((x * y).sum()) / max(float(y.square().sum()), 1e-300)
    if abs(scale) < 1e-12 or not _is_close(x, scale * y) or _is_close(x, y):
        return None
    return fact("checkpoint.factor", times=scale)
