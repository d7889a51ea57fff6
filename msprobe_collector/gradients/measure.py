"""What is written of one gradient: numbers of a row, signs, and a sketch of its direction."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from msprobe_collector.config.gradients import GradientSettings
from msprobe_collector.record.checksums import checksum

_PIECE = 1 << 20  # elements of a sketch at once


def own_part(gradient: torch.Tensor) -> torch.Tensor:
    """The part of a sharded gradient that this rank has, dense."""
    gradient = gradient.detach()
    to_local = getattr(gradient, "to_local", None)
    if to_local is not None:
        gradient = to_local()
    return gradient.coalesce().to_dense() if gradient.is_sparse else gradient


def row(name: str, gradient: torch.Tensor, settings: GradientSettings) -> list[Any]:
    """The cells of one parameter; everything is reduced in float32 or better, read back once.

    Of level L2 elements are counted, and read back once more: their shares are of float64.
    """
    wide = gradient if gradient.dtype is torch.float64 else gradient.float()
    cells: list[Any] = [name]
    if settings.level == "L0":
        cells.append(checksum(wide.float().contiguous()))
    flat = wide.reshape(-1)
    count = flat.numel()
    shares: list[float] = []
    if count == 0:
        numbers = [0.0] * 3
        shares = [0.0] * (len(settings.bounds) + 2)
    else:
        found = [*torch.aminmax(flat), torch.linalg.vector_norm(flat)]
        if settings.level == "L2":
            edges = torch.tensor(settings.bounds, dtype=flat.dtype, device=flat.device)
            places = torch.bucketize(flat, edges)
            counts = torch.bincount(places, minlength=len(settings.bounds) + 1)
            zeros = (flat == 0).sum().reshape(1)
            shares = [one / count for one in torch.cat([counts, zeros]).tolist()]
        low, high, norm = torch.stack(found).tolist()
        numbers = [high, low, norm]
    if settings.level == "L2":
        cells += shares
    return [*cells, *numbers, str(list(gradient.shape))]


def signs(gradient: torch.Tensor, sign_format: str) -> NDArray[Any]:
    """Where the gradient is positive; as ``bits`` eight of them in a byte, then the negative ones.

    The shape is the gradient's, and (2, bytes) as bits.
    """
    positive = (gradient > 0).cpu().numpy()
    if sign_format == "bool":
        return positive
    negative = (gradient < 0).cpu().numpy()
    return np.stack([np.packbits(one.reshape(-1)) for one in (positive, negative)])


def sketch(gradient: torch.Tensor, size: int) -> NDArray[np.float32]:
    """``size`` sums of elements with pseudo-random signs (a count sketch).

    Dot products of sketches are those of the gradients but for an error of about
    ‖a‖ ‖b‖ / √size (Charikar, Chen and Farach-Colton, 2002). Places and signs depend on nothing
    but the element's number, so that sketches of other processes and devices fit together.
    """
    flat = gradient.reshape(-1)
    result = torch.zeros(size, dtype=torch.float32, device=flat.device)
    for start in range(0, flat.numel(), _PIECE):
        part = flat[start : start + _PIECE].float()
        number = torch.arange(start, start + part.numel(), device=flat.device)
        mixed = _mixed(number)
        turned = torch.where((mixed >> 40) & 1 == 0, part, -part)
        result.index_add_(0, (mixed & 0x7FFFFFFF) % size, turned)
    return result.cpu().numpy()


def _mixed(number: torch.Tensor) -> torch.Tensor:
    """Numbers that look random, by multiplying and folding 64 bits."""
    for factor in (-7046029254386353131, -4658895280553007687):
        number = (number + 1) * factor
        number = number ^ ((number >> 29) & ((1 << 35) - 1))
    return number
