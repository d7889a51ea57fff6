"""Statistics of tensors on an accelerator: written there by few kernels, read back together.

Each tensor has a row in a block of its device and type, into which the reductions write; a block
is copied to the host as a whole once all its numbers are wanted. Nobody waits until then.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import math
from collections.abc import Sequence
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

import torch

_ROWS = 256
_EXACT_INTEGER = 2**53
# Outside of these the squares of numbers of float32 leave its range, or lose their digits.
_TINY_NORM = 1e-15
_norm = torch.linalg.vector_norm

Values: TypeAlias = "tuple[Any, Any, Any, Any]"


class _Block:
    """Rows of max and min in the tensors' own type, of sum and norm in a more accurate one."""

    def __init__(self, device: torch.device, dtype: torch.dtype, accurate: torch.dtype) -> None:
        self.extremes = torch.zeros((_ROWS, 2), dtype=dtype, device=device)
        self.totals = torch.zeros((_ROWS, 2), dtype=accurate, device=device)
        self.high, self.low = (one.unbind() for one in self.extremes.unbind(1))
        self.total, self.norm = (one.unbind() for one in self.totals.unbind(1))
        self.used = 0


class Row(NamedTuple):
    """Where the numbers of a tensor are; ``kind`` says how to read them."""

    block: _Block
    place: int
    kind: str  # "float", "int", "bool" or "complex"
    size: int


class DeviceRows:
    """The blocks that are being filled. Backward hooks run in threads of the engine."""

    def __init__(self) -> None:
        self._open: dict[tuple[torch.device, torch.dtype], _Block] = {}
        self._lock = Lock()

    def measure(self, tensor: torch.Tensor, kind: str) -> Row:
        """Reduce a tensor of numbers that torch can reduce; nothing waits for the result."""
        size = tensor.numel()
        if tensor.itemsize == 1 and kind == "float":
            tensor = tensor.float()  # float8 has no reductions
        block, place = self._next(tensor)
        if kind == "bool":
            block.high[place].copy_(tensor.any())
            block.low[place].copy_(tensor.all())
            return Row(block, place, kind, size)
        _extremes(tensor, block.low[place], block.high[place])
        accurate = block.totals.dtype
        if kind == "int":
            tensor = tensor.to(accurate)
        torch.sum(tensor, (), dtype=accurate, out=block.total[place])
        if kind != "complex":
            _norm(tensor, dtype=accurate, out=block.norm[place])
        return Row(block, place, kind, size)

    def _next(self, tensor: torch.Tensor) -> tuple[_Block, int]:
        key = tensor.device, tensor.dtype
        with self._lock:
            block = self._open.get(key)
            if block is None or block.used == _ROWS:
                is_rounded = tensor.is_floating_point() and tensor.itemsize < 8
                accurate = torch.float32 if is_rounded else torch.float64
                with torch.inference_mode(False):  # in which it could be written to nowhere else
                    block = self._open[key] = _Block(*key, accurate)
            place = block.used
            block.used += 1
        return block, place

    def fetch(self, rows: Sequence[tuple[dict[str, Any], Row]], fields: Sequence[str]) -> None:
        """Write the numbers of waiting rows into their items: one copy for each device."""
        with self._lock:
            self._open.clear()
        by_device: dict[torch.device, dict[int, _Block]] = {}
        for _, row in rows:
            block = row.block
            by_device.setdefault(block.extremes.device, {})[id(block)] = block
        numbers: dict[int, tuple[list[Any], list[Any]]] = {}
        for device, blocks in by_device.items():
            numbers |= _copied(device, list(blocks.values()))
        for item, row in rows:
            extremes, totals = numbers[id(row.block)]
            values = _values(row, extremes[row.place], totals[row.place])
            item.update(zip(fields, values, strict=True))


def _extremes(tensor: torch.Tensor, low: torch.Tensor, high: torch.Tensor) -> None:
    try:
        torch.aminmax(tensor, out=(low, high))
    except NotImplementedError:  # not every backend writes both into given memory
        low.copy_(tensor.amin())
        high.copy_(tensor.amax())


def _copied(
    device: torch.device, blocks: Sequence[_Block]
) -> dict[int, tuple[list[Any], list[Any]]]:
    """The numbers of blocks by their identity; other streams may still be writing to them."""
    synchronize = getattr(getattr(torch, device.type, None), "synchronize", None)
    if synchronize is not None:
        synchronize() if device.type == "cpu" else synchronize(device)
    parts = [part for block in blocks for part in (block.extremes, block.totals)]
    flat = torch.cat([part.view(-1).view(torch.uint8) for part in parts]).cpu()
    bytes_of = flat.split([part.numel() * part.itemsize for part in parts])
    # A copy of each begins where its type may begin.
    tables = [
        one.clone().view(part.dtype).view(part.shape).tolist()
        for one, part in zip(bytes_of, parts, strict=True)
    ]
    return {id(block): (tables[2 * n], tables[2 * n + 1]) for n, block in enumerate(blocks)}


def _values(row: Row, extremes: list[Any], totals: list[Any]) -> Values:
    high, low = extremes
    if row.kind == "bool":
        return (bool(high), bool(low), None, None)
    total, norm = totals
    mean = total / row.size
    if row.kind == "int":
        return (plain_integer(high), plain_integer(low), mean, norm)
    if row.kind == "complex":
        norm = None
    elif math.isfinite(high) and math.isfinite(low):
        # The tensor may have changed since, so that none can be worked out more accurately.
        if not math.isfinite(norm) or (norm < _TINY_NORM and (high or low)):
            norm = None
        if not math.isfinite(mean):
            mean = None
    return (high, low, mean, norm)


def plain_integer(value: float) -> float | int:
    """Integers as floats, as readers expect, unless that would round them."""
    return float(value) if abs(value) <= _EXACT_INTEGER else value
