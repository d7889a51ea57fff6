"""Sketches of tensors, computed by torch where they lie; the definition is the builder's.

On the host each is done at once in memory that is kept for the next. On an accelerator a few
kernels make one, and all are read back together with the statistics.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from msprobe_builder.base.codes import SLICES
from msprobe_builder.sketch.definition import (
    FLAT,
    NUMBERS,
    Grid,
    grid_of,
)
from msprobe_builder.sketch.layout import NO_ROW, ROW, rows_of
from msprobe_collector.record.device_rows import Values
from msprobe_collector.record.sketch_batches import SHORT, Batch, ShortBatch, Signs, signs_of
from msprobe_collector.record.statistics import is_capturing
from msprobe_collector.unseen import unseen

_LARGEST = 3.4e38  # of float32
_KEPT_SHAPES = 256


class Sketches:
    """The rows of a step: numbered as they come, taken when they are written."""

    def __init__(self, *, is_flat: bool = False) -> None:
        """Where all ``is_flat`` only the sums by the flat order are made, the others are zero."""
        self._is_flat = is_flat
        self._batches: dict[tuple[torch.Size, torch.dtype], Batch | ShortBatch] = {}
        self._signs: dict[tuple[Grid, torch.dtype, torch.device], Signs] = {}
        self._scratch = torch.empty(0)
        # Backward hooks run in threads of the engine, and all fill the same batches.
        self._lock = threading.Lock()
        self._next = 0
        self._taken = 0
        self._finished: list[tuple[list[int], npt.NDArray[Any]]] = []  # numbers and rows
        self._waiting: list[tuple[int, torch.Tensor]] = []
        # By the compiled module: two lists, as pairs would be garbage to look through.
        self._made: list[bytes] = []
        self._made_numbers: list[int] = []

    def append(self, row: bytes) -> int:
        """The number of a row that is made."""
        with self._lock:
            number = self._next
            self._next = number + 1
            self._made.append(row)
            self._made_numbers.append(number)
        return number

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
        dtype, shape = _working_type(), plain.size()  # a class may say otherwise of its ``shape``
        with self._lock:
            batch = self._batches.get((shape, dtype)) or self._batch(shape, dtype)
            number = self._next
            batch.add(plain, is_finite, number)
            self._next += 1
            if len(batch.waiting) == batch.slots:
                self._finish(batch)
            return number

    def _batch(self, shape: torch.Size, dtype: torch.dtype) -> Batch | ShortBatch:
        if len(self._batches) >= _KEPT_SHAPES:
            for batch in self._batches.values():
                self._finish(batch)
            self._batches.clear()
        grid = grid_of(tuple(shape))
        made: Batch | ShortBatch
        if grid.size <= SHORT:
            made = ShortBatch(grid, dtype)
        else:
            signs = self._signs_of(grid, dtype, torch.device("cpu"))
            made = Batch(grid, signs, dtype, self._room, is_flat=self._is_flat)
        self._batches[shape, dtype] = made
        return made

    def _room(self, size: int, dtype: torch.dtype) -> torch.Tensor:
        if self._scratch.numel() < size or self._scratch.dtype is not dtype:
            self._scratch = torch.empty(size, dtype=dtype)
        return self._scratch[:size]

    def _finish(self, batch: Batch | ShortBatch) -> None:
        if batch.waiting:
            numbers, nans, infinities = zip(*batch.waiting, strict=True)
            sums = batch.sums()[: len(numbers)]
            self._finished.append((list(numbers), rows_of(sums.numpy(), nans, infinities)))
            batch.waiting.clear()

    def _signs_of(self, grid: Grid, dtype: torch.dtype, device: torch.device) -> Signs:
        key = (grid, dtype, device)
        known = self._signs.get(key)
        if known is None:
            if len(self._signs) >= _KEPT_SHAPES:
                self._signs.clear()
            known = self._signs[key] = signs_of(grid, dtype, device)
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
        grid = grid_of(tuple(plain.size()))
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
        if self._is_flat:
            parts.append(numbers.new_zeros(2 * SLICES))
            return torch.cat([*(part.reshape(-1).double() for part in parts), counts])
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
            if self._made:
                made = np.frombuffer(b"".join(self._made), ROW)
                self._finished.append((self._made_numbers, made))
                self._made, self._made_numbers = [], []
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
            self._made, self._made_numbers = [], []
            for batch in self._batches.values():
                batch.waiting.clear()


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


def _filled(numbers: torch.Tensor, length: int) -> torch.Tensor:
    """With zeros behind."""
    return torch.nn.functional.pad(numbers, (0, length - numbers.shape[-1]))


def _wait_for(device: torch.device) -> None:
    synchronize = getattr(getattr(torch, device.type, None), "synchronize", None)
    if synchronize is not None:
        synchronize(device)
