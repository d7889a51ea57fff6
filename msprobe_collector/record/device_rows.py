"""Statistics of tensors on an accelerator: reduced there by few kernels, read back together.

Each tensor has a row in a block of its device, type and stream; a full block becomes one tensor
there, and all blocks are copied to the host at once. Nobody waits until then.
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
TINY_NORM = 1e-15
_norm = torch.linalg.vector_norm

Values: TypeAlias = "tuple[Any, Any, Any, Any]"


class _Block:
    """Rows of max and min in the tensors' own type, of sum and norm in a more accurate one."""

    def __init__(self) -> None:
        self.extremes: list[torch.Tensor] = []
        self.totals: list[torch.Tensor] = []
        self.used = 0
        self._is_packed = False

    def pack(self) -> None:
        """Make one tensor of many, in the stream that they were made in or behind all streams."""
        if not self._is_packed:
            self._is_packed = True
            self.extremes = [torch.stack(self.extremes)]
            self.totals = [torch.stack(self.totals)] if self.totals else []


class Row(NamedTuple):
    """Where the numbers of a tensor are; ``kind`` says how to read them."""

    block: _Block
    place: int
    kind: str  # "float", "int", "bool" or "complex"
    size: int


class DeviceRows:
    """The blocks that are being filled. Backward hooks run in threads of the engine."""

    def __init__(self) -> None:
        self._open: dict[tuple[torch.device, torch.dtype, int], _Block] = {}
        self._lock = Lock()

    def measure(self, tensor: torch.Tensor, kind: str) -> Row:
        """Reduce a tensor of numbers that torch can reduce; nothing waits for the result."""
        size = tensor.numel()
        if kind == "bool":
            return self._row(tensor, [tensor.any(), tensor.all()], [], kind, size)
        if kind == "float" and tensor.itemsize == 1:
            tensor = tensor.float()  # float8 has no reductions
        low, high = torch.aminmax(tensor)
        accurate = torch.float32
        if kind == "int" or tensor.itemsize == 8:
            accurate = torch.float64
        wide = tensor.to(accurate) if kind == "int" else tensor
        total = torch.sum(wide, dtype=accurate)
        norm = total if kind == "complex" else _norm(wide, dtype=accurate)
        return self._row(tensor, [high, low], [total, norm], kind, size)

    def _row(
        self,
        tensor: torch.Tensor,
        extremes: list[torch.Tensor],
        totals: list[torch.Tensor],
        kind: str,
        size: int,
    ) -> Row:
        device = tensor.device
        stream = 0
        if device.type == "cuda":  # a block is packed in the stream that its rows are made in
            stream = torch._C._cuda_getCurrentRawStream(device.index)
        key = device, tensor.dtype, stream
        with self._lock:
            block = self._open.get(key)
            if block is None:
                block = self._open[key] = _Block()
            place = block.used
            block.used += 1
            block.extremes += extremes
            block.totals += totals
            if block.used == _ROWS:
                del self._open[key]
                block.pack()
        return Row(block, place, kind, size)

    def fetch(self, rows: Sequence[tuple[dict[str, Any], Row]], fields: Sequence[str]) -> None:
        """Write the numbers of waiting rows into their items: one copy for each device."""
        with self._lock:
            self._open.clear()
        by_device: dict[torch.device, dict[int, _Block]] = {}
        for _, row in rows:
            block = row.block
            by_device.setdefault(block.extremes[0].device, {})[id(block)] = block
        numbers: dict[int, tuple[list[Any], list[Any]]] = {}
        for device, blocks in by_device.items():
            numbers |= _copied(device, list(blocks.values()))
        for item, row in rows:
            extremes, totals = numbers[id(row.block)]
            at = slice(2 * row.place, 2 * row.place + 2)
            item.update(zip(fields, _values(row, extremes[at], totals[at]), strict=True))


def _copied(
    device: torch.device, blocks: Sequence[_Block]
) -> dict[int, tuple[list[Any], list[Any]]]:
    """The numbers of blocks by their identity; other streams may still be writing to them."""
    synchronize = getattr(getattr(torch, device.type, None), "synchronize", None)
    if synchronize is not None:
        synchronize(device)
    parts = []
    for block in blocks:
        block.pack()
        parts += [one[0] for one in (block.extremes, block.totals) if one]
    flat = torch.cat([part.view(torch.uint8) for part in parts]).cpu()
    bytes_of = iter(flat.split([part.numel() * part.itemsize for part in parts]))
    # A copy of each begins where its type may begin.
    tables = [next(bytes_of).clone().view(part.dtype).tolist() for part in parts]
    left = iter(tables)
    return {id(one): (next(left), next(left) if one.totals else []) for one in blocks}


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
        if not math.isfinite(norm) or (norm < TINY_NORM and (high or low)):
            norm = None
        if not math.isfinite(mean):
            mean = None
    return (high, low, mean, norm)


def plain_integer(value: float) -> float | int:
    """Integers as floats, as readers expect, unless that would round them."""
    return float(value) if abs(value) <= _EXACT_INTEGER else value
