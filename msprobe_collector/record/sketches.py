"""Sketches of tensors, computed by torch where they lie; the definition is the builder's.

On the host each is done at once in memory that is kept for the next. On an accelerator a few
kernels make one, and all are read back together with the statistics.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import math
import threading
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from msprobe_builder.base.codes import SLICES
from msprobe_builder.sketch.definition import (
    FLAT,
    NUMBERS,
    Grid,
    column_signs,
    flat_signs,
    grid_of,
    row_signs,
)
from msprobe_builder.sketch.layout import NO_ROW, ROW, rows_of
from msprobe_collector.record.device_rows import Values
from msprobe_collector.record.statistics import is_capturing
from msprobe_collector.unseen import unseen

_LARGEST = 3.4e38  # of float32
_BATCH = 1 << 17  # numbers of the tensors whose sums are made together; what is longer is alone
_ALIGNMENT = 16  # numbers of 64 bytes
_SLOTS = 64  # the most of them
_KEPT_SHAPES = 256
_SCALE = FLAT**-0.5


class _Signs(NamedTuple):
    """The signs of a layout on a device; the scale of the flat sums is in the larger matrices."""

    along_narrow: torch.Tensor  # (width of the narrow plane,)
    narrow_lines: torch.Tensor  # (its lines, DEEP)
    wide_lines: torch.Tensor  # (lines of the wide plane,)
    along_wide: torch.Tensor  # (its width, DEEP)
    rows: torch.Tensor  # (R,)
    columns: torch.Tensor  # (C,)
    row_slice: torch.Tensor
    column_slice: torch.Tensor


class _Batch:
    """Room for some tensors of one shape, whose sums are made together: each costs a copy.

    Rows and columns of a slot lie behind each other, zeros behind them up to the planes' ends.
    Each slot is summed by itself, with the same operators, so that equal tensors have equal bytes
    whatever comes beside them.
    """

    def __init__(self, grid: Grid, signs: _Signs, dtype: torch.dtype, scratch: torch.Tensor | None):
        self.grid = grid
        self.signs = signs
        self.slots = 1 if scratch is not None else min(_SLOTS, max(1, _BATCH // grid.size))
        stride = _length(grid)
        if scratch is None:
            scratch = torch.zeros(self.slots * stride, dtype=dtype)
            self.rest = None
        else:
            self.rest = scratch[grid.size : stride]
        flat = scratch[: self.slots * stride].view(self.slots, stride)
        self.flat = flat[:, : grid.size]
        self.numbers = [flat[slot, : grid.size] for slot in range(self.slots)]
        self.tables = [numbers.view(grid.rows, grid.columns) for numbers in self.numbers]
        lines, width = grid.narrow
        self.narrow = [flat[slot, : lines * width].view(lines, width) for slot in range(self.slots)]
        self.narrow_sums = _aligned(self.slots, lines, dtype)
        self.sums_of_slots = list(self.narrow_sums)
        lines, width = grid.wide
        self.wide = flat[:, : lines * width].view(self.slots, lines, width)
        self.wide_sums = _aligned(self.slots, width, dtype)[:, None]
        rows = torch.zeros((self.slots, SLICES * grid.row_slice), dtype=dtype)
        self.row_sums = list(rows[:, : grid.rows])
        self.sliced_rows = rows.view(self.slots, SLICES, -1)
        self.tall = self.flat.view(self.slots, grid.rows, grid.columns)
        self.columns = torch.zeros((self.slots, 1, SLICES * grid.column_slice), dtype=dtype)
        self.sliced_columns = self.columns.view(self.slots, SLICES, -1)
        self.column_sums = _aligned(self.slots, grid.columns, dtype)[:, None]
        self.waiting: list[tuple[int, int, int]] = []  # row, NaN and infinities of each slot used

    def sums(self) -> torch.Tensor:
        """The sketches of the slots in use, (slots, NUMBERS) of float32."""
        signs, used, grid = self.signs, len(self.waiting), self.grid
        if grid.size <= FLAT:
            flat = [_filled(self.flat[:used], FLAT)]
        else:
            for plane, sums in zip(self.narrow[:used], self.sums_of_slots, strict=False):
                torch.mv(plane, signs.along_narrow, out=sums)
            wide = self.wide_sums[:used]
            torch.bmm(signs.wide_lines.expand(used, 1, -1), self.wide[:used], out=wide)
            flat = [
                torch.bmm(self.narrow_sums[:used, None], signs.narrow_lines.expand(used, -1, -1)),
                torch.bmm(wide, signs.along_wide.expand(used, -1, -1)),
            ]
        for table, sums in zip(self.tables[:used], self.row_sums, strict=False):
            torch.mv(table, signs.columns, out=sums)
        columns = self.column_sums[:used]
        torch.bmm(signs.rows.expand(used, 1, -1), self.tall[:used], out=columns)
        self.columns[:used, :, : grid.columns] = columns
        of_rows = (self.sliced_rows[:used] * signs.row_slice).sum(-1)
        of_columns = (self.sliced_columns[:used] * signs.column_slice).sum(-1)
        parts = (*(part.view(used, -1) for part in flat), of_rows, of_columns)
        return torch.cat(parts, 1).float()


def _length(grid: Grid) -> int:
    """Of a slot: the numbers of the tensor, and zeros to the ends of both planes."""
    longest = max(grid.size, *(plane.lines * plane.width for plane in (grid.narrow, grid.wide)))
    return -(-longest // _ALIGNMENT) * _ALIGNMENT


def _aligned(slots: int, length: int, dtype: torch.dtype) -> torch.Tensor:
    """Memory of which each slot begins alike: the order of sums in a library depends on it."""
    stride = -(-length // _ALIGNMENT) * _ALIGNMENT
    return torch.zeros((slots, stride), dtype=dtype)[:, :length]


class Sketches:
    """The rows of a step: numbered as they come, taken when they are written."""

    def __init__(self) -> None:
        self._batches: dict[tuple[torch.Size, torch.dtype], _Batch] = {}
        self._signs: dict[tuple[Grid, torch.dtype, torch.device], _Signs] = {}
        self._scratch = torch.empty(0)
        # Backward hooks run in threads of the engine, and all fill the same batches.
        self._lock = threading.Lock()
        self._next = 0
        self._taken = 0
        self._finished: list[tuple[list[int], npt.NDArray[Any]]] = []  # numbers and rows
        self._waiting: list[tuple[int, torch.Tensor]] = []

    def add(self, plain: torch.Tensor, values: Values | None) -> int:
        """The number of a plain tensor's row, NO_ROW when it has none. Call inside ``unseen``.

        ``values`` are its statistics, None while they are on their way from an accelerator.
        """
        if not plain.is_cpu:
            return self._add_waiting(plain)
        if (values is not None and values[0] is None) or not plain.numel():
            return NO_ROW  # a type that torch cannot reduce
        is_finite = values is not None and _are_finite(values)
        if plain.dtype.is_complex:
            plain, is_finite = _as_reals(plain), False
        with self._lock:
            key = (plain.shape, _working_type())
            batch = self._batches.get(key) or self._batch(*key)
            slot = len(batch.waiting)
            table = batch.tables[slot]
            table.copy_(plain if plain.dim() == 2 else plain.reshape(table.shape))
            left_out = (0, 0) if is_finite else _take_out(batch.numbers[slot])
            number = self._next
            self._next += 1
            batch.waiting.append((number, *left_out))
            if slot + 1 == batch.slots:
                self._finish(batch)
            return number

    def _batch(self, shape: torch.Size, dtype: torch.dtype) -> _Batch:
        grid = grid_of(tuple(shape))
        signs = self._signs_of(grid, dtype, torch.device("cpu"))
        scratch = None
        if grid.size > _BATCH // 2:
            length = _length(grid)
            if self._scratch.numel() < length or self._scratch.dtype is not dtype:
                self._scratch = torch.empty(length, dtype=dtype)
                self._batches = {key: one for key, one in self._batches.items() if one.rest is None}
            scratch = self._scratch
        if len(self._batches) >= _KEPT_SHAPES:
            for batch in self._batches.values():
                self._finish(batch)
            self._batches.clear()
        made = self._batches[shape, dtype] = _Batch(grid, signs, dtype, scratch)
        return made

    def _finish(self, batch: _Batch) -> None:
        if batch.waiting:
            if batch.rest is not None:
                batch.rest.zero_()
            numbers, nans, infinities = zip(*batch.waiting, strict=True)
            rows = rows_of(batch.sums().numpy(), nans, infinities)
            self._finished.append((list(numbers), rows))
            batch.waiting.clear()

    def _signs_of(self, grid: Grid, dtype: torch.dtype, device: torch.device) -> _Signs:
        key = (grid, dtype, device)
        known = self._signs.get(key)
        if known is None:
            if len(self._signs) >= _KEPT_SHAPES:
                self._signs.clear()
            known = self._signs[key] = _signs(grid, dtype, device)
        return known

    # -- on accelerators ----------------------------------------------------------------------

    def _add_waiting(self, plain: torch.Tensor) -> int:
        if is_capturing() or not plain.numel():
            return NO_ROW
        try:
            row = self._there(_as_reals(plain) if plain.dtype.is_complex else plain)
        except (RuntimeError, NotImplementedError):
            return NO_ROW  # a type that the device cannot convert
        with self._lock:
            number = self._next
            self._next += 1
            self._waiting.append((number, row))
        return number

    def _there(self, plain: torch.Tensor) -> torch.Tensor:
        """The sums, then how many are NaN and infinite, in float64: (NUMBERS + 2,)."""
        grid = grid_of(tuple(plain.shape))
        dtype = _working_type()
        numbers = plain.reshape(-1).float()
        counts = torch.stack((numbers.isnan().sum(), numbers.isinf().sum())).double()
        numbers = torch.nan_to_num(numbers, 0.0, 0.0, 0.0).to(dtype)
        signs = self._signs_of(grid, dtype, plain.device)
        table = numbers.view(grid.rows, grid.columns)
        if grid.size <= FLAT:
            parts = [_filled(numbers, FLAT)]
        else:
            narrow = _filled(numbers, grid.narrow.lines * grid.narrow.width).view(grid.narrow)
            wide = _filled(numbers, grid.wide.lines * grid.wide.width).view(grid.wide)
            parts = [
                narrow @ signs.along_narrow @ signs.narrow_lines,
                signs.wide_lines @ wide @ signs.along_wide,
            ]
        rows = _filled(table @ signs.columns, SLICES * grid.row_slice).view(SLICES, -1)
        columns = _filled(signs.rows @ table, SLICES * grid.column_slice).view(SLICES, -1)
        parts += [rows @ signs.row_slice, columns @ signs.column_slice]
        return torch.cat([*(part.reshape(-1).double() for part in parts), counts])

    # -- to the file --------------------------------------------------------------------------

    def take(self) -> npt.NDArray[Any]:
        """The rows since the last call, those on accelerators as well."""
        with self._lock, unseen():
            for batch in self._batches.values():
                self._finish(batch)
            waiting, self._waiting = self._waiting, []
            by_device: dict[torch.device, list[tuple[int, torch.Tensor]]] = {}
            for number, row in waiting:
                by_device.setdefault(row.device, []).append((number, row))
            for device, there in by_device.items():
                _wait_for(device)
                copied = torch.stack([row for _, row in there]).cpu().numpy()
                rows = rows_of(copied[:, :NUMBERS], copied[:, NUMBERS], copied[:, NUMBERS + 1])
                self._finished.append(([number for number, _ in there], rows))
            taken = np.zeros(self._next - self._taken, ROW)
            for numbers, rows in self._finished:
                taken[np.array(numbers) - self._taken] = rows
            self._finished, self._taken = [], self._next
            return taken

    def end_step(self) -> None:
        """Number from 0 again; what was not taken is dropped."""
        with self._lock:
            self._next = self._taken = 0
            self._finished, self._waiting = [], []
            for batch in self._batches.values():
                batch.waiting.clear()


def _signs(grid: Grid, dtype: torch.dtype, device: torch.device) -> _Signs:
    flat = flat_signs(max(grid.narrow.lines, grid.wide.width))

    def there(signs: npt.NDArray[np.int8]) -> torch.Tensor:
        return torch.from_numpy(signs).to(device, dtype)

    return _Signs(
        there(flat.along_narrow[0, : grid.narrow.width]),
        there(flat.narrow_lines[:, : grid.narrow.lines].T.copy()) * _SCALE,
        there(flat.wide_lines[0, : grid.wide.lines]),
        there(flat.along_wide[:, : grid.wide.width].T.copy()) * _SCALE,
        there(row_signs(grid.rows)),
        there(column_signs(grid.columns)),
        there(row_signs(grid.row_slice)),
        there(column_signs(grid.column_slice)),
    )


def _working_type() -> torch.dtype:
    """float32, unless the program lets its products be less accurate than that."""
    exact = torch.get_float32_matmul_precision() == "highest"
    return torch.float32 if exact else torch.float64


def _are_finite(values: Values) -> bool:
    high, low = values[:2]
    return math.isfinite(high) and math.isfinite(low) and low > -_LARGEST and high < _LARGEST


def _as_reals(plain: torch.Tensor) -> torch.Tensor:
    """A complex number counts as two beside each other along the last dimension."""
    pairs = torch.view_as_real(plain.resolve_conj())
    return pairs.flatten(-2) if pairs.dim() > 1 else pairs


def _take_out(numbers: torch.Tensor) -> tuple[int, int]:
    """Put 0 for what is not finite as float32; how many are NaN and infinite."""
    numbers.copy_(numbers.float())
    nans, infinities = int(numbers.isnan().sum()), int(numbers.isinf().sum())
    numbers.nan_to_num_(0.0, 0.0, 0.0)
    return nans, infinities


def _filled(numbers: torch.Tensor, length: int) -> torch.Tensor:
    """With zeros behind."""
    return torch.nn.functional.pad(numbers, (0, length - numbers.shape[-1]))


def _wait_for(device: torch.device) -> None:
    synchronize = getattr(getattr(torch, device.type, None), "synchronize", None)
    if synchronize is not None:
        synchronize(device)
