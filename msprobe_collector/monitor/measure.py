"""The numbers of a tensor, in as few passes over memory as they need.

Half precision is reduced in float32, sums of pieces in float64. On an accelerator the numbers
stay there until :func:`fetch` copies those of a whole step at once.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from msprobe_collector.monitor.numbers import Numbers
from msprobe_collector.record.sketches import Sketches
from msprobe_collector.record.statistics import is_capturing, local_part

# Elements of a piece: half a megabyte for each thread stays in its core's own cache, so that only
# the first of the passes over it waits for memory.
_PIECE = 1 << 17
# Up to which numpy's products, extremes and comparisons, on one, are faster than torch's.
_FEW_THREADS = 2
_LEAST = 1e-30  # sum of squares, from which on none that counts is too small for its type
_SOME = 8  # elements by which a tensor is known again


@dataclass(frozen=True)
class Waiting:
    """Numbers still on their device: squares, total, high, low, zeros, nans."""

    numbers: torch.Tensor
    count: int
    sketch: int = -1


def measure(tensor: torch.Tensor, sketches: Sketches | None = None) -> Numbers | Waiting | None:
    """None where there is nothing to measure here; call inside ``unseen``.

    The tensor's sketch is added to ``sketches``.
    """
    plain = local_part(tensor.to_dense() if tensor.is_sparse else tensor)
    if plain is None or plain.numel() == 0 or not plain.is_floating_point():
        return None
    if plain.itemsize == 1:
        plain = plain.float()  # float8 has no reductions
    found: Numbers | Waiting
    if plain.device.type == "cpu":
        found = _here(plain)
    elif is_capturing():
        return None
    else:
        found = _there(plain)
    if sketches is None:
        return found
    values = None
    if isinstance(found, Numbers):  # what is finite is summed where it lies
        values = found.high, found.low, found.mean, found.norm
    return replace(found, sketch=sketches.add(plain, values))


def _here(tensor: torch.Tensor) -> Numbers:
    flat = tensor.reshape(-1)
    pieces = _pieces(flat)
    equal = np.empty(pieces[0].numel(), bool)  # new memory for each piece would cost more
    parts = [_piece(piece, equal) for piece in pieces]
    squares, total, high, low, zeros = (list(column) for column in zip(*parts, strict=True))
    square, whole = sum(squares), sum(total)
    if math.isinf(square) and tensor.dtype is not torch.float64 and _is_finite(high, low):
        # The squares leave the range of float32 although the numbers do not.
        square = torch.linalg.vector_norm(flat, dtype=torch.float64).item() ** 2
        whole = flat.sum(dtype=torch.float64).item()
    nans = 0 if math.isfinite(whole) else int(flat.isnan().sum())
    top, bottom = (math.nan, math.nan) if nans else (max(high), min(low))
    count = flat.numel()
    return Numbers(square, whole, top, bottom, sum(zeros), nans, count, _some(flat))


def _some(flat: torch.Tensor) -> tuple[float, ...]:
    return tuple(flat[:: max(1, flat.numel() // _SOME)].tolist()[:_SOME])


def _is_finite(high: list[float], low: list[float]) -> bool:
    return all(map(math.isfinite, (*high, *low)))


def _pieces(flat: torch.Tensor) -> Sequence[torch.Tensor]:
    return flat.split(_PIECE * torch.get_num_threads())


def _piece(piece: torch.Tensor, equal: NDArray[np.bool_]) -> tuple[float, float, float, float, int]:
    wide = _wide(piece)
    square, total = _square(wide), wide.sum().item()
    if torch.get_num_threads() > _FEW_THREADS:
        high, low = wide.amax().item(), wide.amin().item()
    else:
        values = wide.numpy()
        high, low = float(values.max()), float(values.min())
    if low > 0 or high < 0:
        return square, total, high, low, 0
    if torch.get_num_threads() > _FEW_THREADS:
        zeros = wide.numel() - int(torch.count_nonzero(wide))
    else:
        zeros = int(np.count_nonzero(np.equal(values, 0, out=equal[: values.size])))
    return square, total, high, low, zeros


def _wide(piece: torch.Tensor) -> torch.Tensor:
    return piece if piece.dtype is torch.float64 else piece.float()


def _square(wide: torch.Tensor) -> float:
    if torch.get_num_threads() <= _FEW_THREADS:
        values = wide.numpy()  # whose product takes a third of the time of torch's norm
        with np.errstate(over="ignore", invalid="ignore"):
            found = float(np.dot(values, values))
        if _LEAST < found < math.inf:  # else single precision does not hold the squares
            return found
    return float(torch.linalg.vector_norm(wide).item()) ** 2


def is_unchanged(tensor: torch.Tensor, before: Numbers | Waiting | None) -> bool:
    """Whether a tensor on the host still is what it was; one pass instead of five.

    Sums would not tell: those of a gradient often cancel to nothing but rounding.
    """
    plain = local_part(tensor)
    if not isinstance(before, Numbers) or plain is None or plain.device.type != "cpu":
        return False
    if plain.numel() != before.count or not 0 < before.squares < math.inf:
        return False
    flat = plain.reshape(-1)
    if _some(flat) != before.some:
        return False
    return sum(_square(_wide(piece)) for piece in _pieces(flat)) == before.squares


def _there(tensor: torch.Tensor) -> Waiting:
    low, high = torch.aminmax(tensor)
    accurate = torch.float64 if tensor.dtype is torch.float64 else torch.float32
    numbers = (
        torch.linalg.vector_norm(tensor, dtype=accurate).square(),
        tensor.sum(dtype=accurate),
        high.to(accurate),
        low.to(accurate),
        (tensor == 0).sum().to(accurate),
        tensor.isnan().sum().to(accurate),
    )
    return Waiting(torch.stack(numbers), tensor.numel())


def fetch(found: Sequence[Numbers | Waiting]) -> list[Numbers]:
    """All of them on the host; one copy per device and dtype."""
    groups: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for place, one in enumerate(found):
        if isinstance(one, Waiting):
            groups.setdefault((one.numbers.device, one.numbers.dtype), []).append(place)
    result: list[Any] = list(found)
    for places in groups.values():
        table = torch.stack([result[place].numbers for place in places]).cpu().tolist()
        for place, row in zip(places, table, strict=True):
            squares, total, high, low, zeros, nans = row
            counts = int(zeros), int(nans), result[place].count
            result[place] = Numbers(squares, total, high, low, *counts, sketch=result[place].sketch)
    return result
