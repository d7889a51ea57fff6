"""What a faulty conversion did to a parameter, where the numbers themselves tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_CLOSE = 1e-2  # ‖a − b‖ / ‖b‖ up to which two tensors are the same but for rounding
_LARGEST = 1 << 28  # elements; larger tensors are not searched
_FEW = 12  # blocks that are tried


def cause_of(x: torch.Tensor, y: torch.Tensor) -> str:
    """Why two tensors differ: halves exchanged, transposed, rows in another order, a factor.

    Empty when none of these explains it.
    """
    if x.is_complex() or y.is_complex() or x.numel() != y.numel() or not 1 < x.numel() <= _LARGEST:
        return ""
    x, y = x.float(), y.float()
    if not (bool(x.isfinite().all()) and bool(y.isfinite().all())):
        return "one holds NaN or infinity"
    if x.dim() == 2 and x.shape == y.shape[::-1] and x.shape != y.shape:
        return "it is transposed" if _is_close(x.T, y) else ""
    if x.shape != y.shape:
        return "it is reshaped" if _is_close(x.reshape(-1), y.reshape(-1)) else ""
    if x.dim() == 2 and x.shape[0] == x.shape[1] and _is_close(x.T, y):
        return "it is transposed"
    if x.shape[0] % 2 == 0 and _is_close(x.roll(x.shape[0] // 2, 0), y):
        return "its halves are exchanged, such as a gate and the factor beside it"
    if _is_close(-x, y):
        return "its sign is turned"
    order = _order_of_rows(x, y)
    if order:
        return order
    return _factor(x, y)


def is_same_but_for_rounding(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether two tensors of one shape hold the same numbers up to rounding."""
    return x.shape == y.shape and not x.is_complex() and _is_close(x.float(), y.float())


def _is_close(x: torch.Tensor, y: torch.Tensor) -> bool:
    norm = float(y.norm())
    return norm > 0 and float((x - y).norm()) <= _CLOSE * norm


def _order_of_rows(x: torch.Tensor, y: torch.Tensor) -> str:
    """Rows are recognised by their norms and confirmed element by element."""
    if x.dim() != 2 or x.shape[0] < 2:
        return ""
    import torch

    first, second = x.norm(dim=1).argsort(), y.norm(dim=1).argsort()
    left = float((x[first] - y[second]).norm())
    # Trained a little further rows are close as they are, and their norms may change places.
    if left > _CLOSE * float(y.norm()) or left > float((x - y).norm()) / 2:
        return ""
    order = torch.empty_like(first)
    order[second] = first
    moved = int((order != torch.arange(len(order))).sum())
    return f"it holds the same rows in another order ({moved} of {len(order)} are moved)"


def _factor(x: torch.Tensor, y: torch.Tensor) -> str:
    scale = float((x * y).sum()) / max(float(y.square().sum()), 1e-300)
    if abs(scale) < 1e-12 or not _is_close(x, scale * y) or _is_close(x, y):
        return ""
    return f"it is {scale:.4g} times the other"
