"""Sketches of tensors, computed by torch where they lie; the definition is the builder's.

On the host each is done at once in memory that is kept for the next. On an accelerator a few
kernels make one, and all are read back together with the statistics.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Sequence
from typing import NamedTuple

import torch
from msprobe_builder.sketch.definition import (
    DEEP,
    FLAT,
    NUMBERS,
    SLICES,
    Grid,
    column_signs,
    flat_signs,
    grid_of,
    row_signs,
)
from msprobe_builder.sketch.layout import packed_row

from msprobe_collector.record.device_rows import Values
from msprobe_collector.record.statistics import is_capturing

_LARGEST = 3.4e38  # of float32
_KEPT_NUMBERS = 1 << 20  # longer tensors get memory of their own
_KEPT_SHAPES = 256
_SCALE = (FLAT // 2) ** -0.5
_BYTES = 4 * NUMBERS


class _Signs(NamedTuple):
    """The signs of a layout as matrices of a device; the scale is in the last two of the plane."""

    lines: torch.Tensor  # (DEEP + GROUPS, Q)
    width_groups: torch.Tensor  # (T, GROUPS)
    width: torch.Tensor  # (T, DEEP)
    rows: torch.Tensor  # (R,)
    columns: torch.Tensor  # (C,)
    row_slice: torch.Tensor
    column_slice: torch.Tensor


class _Place(NamedTuple):
    """Views of the memory of a thread for tensors of one shape."""

    signs: _Signs
    numbers: torch.Tensor  # (size,), in front of the plane
    rest: torch.Tensor | None  # of the plane, to be zero
    plane: torch.Tensor  # (Q, T)
    sums: torch.Tensor  # (DEEP + GROUPS, T)
    table: torch.Tensor  # (R, C)
    turned: torch.Tensor  # (C, R)
    of_rows: torch.Tensor  # (R,) of SLICES * row_slice, of which the rest is zero
    sliced_rows: torch.Tensor
    of_columns: torch.Tensor
    sliced_columns: torch.Tensor
    results: tuple[torch.Tensor, ...]  # views of ``whole``: two of the plane, rows, columns
    whole: torch.Tensor  # (NUMBERS,) of float32


class _Memory(threading.local):
    """What each thread computes in: backward hooks run in threads of the engine."""

    def __init__(self) -> None:
        self.scratch: dict[torch.dtype, torch.Tensor] = {}
        self.places: dict[tuple[torch.Size, torch.dtype], _Place] = {}


class Sketches:
    """The rows of a step: numbered as they come, taken when they are written."""

    def __init__(self) -> None:
        self._memory = _Memory()
        self._signs: dict[tuple[Grid, torch.dtype, torch.device], _Signs] = {}
        self._lock = threading.Lock()
        self._rows: list[bytes | None] = []  # None where they are still on an accelerator
        self._waiting: list[tuple[int, torch.Tensor]] = []
        self._taken = 0

    def add(self, plain: torch.Tensor, values: Values | None) -> int | None:
        """The number of a plain tensor's row; None when it has none. Call inside ``unseen``.

        ``values`` are its statistics, None while they are on their way from an accelerator.
        """
        size = plain.numel()
        if not size or is_capturing():
            return None
        if plain.is_complex():
            plain = torch.view_as_real(plain.resolve_conj())
            plain = plain.flatten(-2) if plain.dim() > 1 else plain
            values = None if plain.is_cpu else values
        if not plain.is_cpu:
            return self._add_waiting(plain)
        if values is not None and values[0] is None:
            return None  # a type that torch cannot reduce
        row = self._here(plain, values)
        with self._lock:
            self._rows.append(row)
            return self._taken + len(self._rows) - 1

    def _here(self, plain: torch.Tensor, values: Values | None) -> bytes:
        dtype = _working_type()
        places = self._memory.places
        key = (plain.shape, dtype)
        place = places.get(key)
        if place is None:
            place = self._place(grid_of(tuple(plain.shape)), dtype)
            if plain.numel() <= _KEPT_NUMBERS:
                if len(places) >= _KEPT_SHAPES:
                    places.clear()
                places[key] = place
        numbers = place.numbers
        place.table.copy_(plain if plain.dim() == 2 else plain.reshape(place.table.shape))
        nans = infinities = 0
        is_finite = values is not None and _are_finite(values)
        if not is_finite or (dtype is torch.float64 and plain.dtype is torch.float64):
            numbers.copy_(numbers.float())
            nans, infinities = int(numbers.isnan().sum()), int(numbers.isinf().sum())
            numbers.nan_to_num_(0.0, 0.0, 0.0)
        _sum_up(place)
        content = ctypes.string_at(place.whole.data_ptr(), _BYTES)
        return packed_row(content, nans, infinities)

    def _place(self, grid: Grid, dtype: torch.dtype) -> _Place:
        """Lay views over the memory of this thread."""
        length = grid.lines * grid.width
        if grid.size <= _KEPT_NUMBERS:
            known = self._memory.scratch.get(dtype)
            if known is None or known.numel() < length:
                known = torch.empty(max(length, 1 << 15), dtype=dtype)
                self._memory.scratch[dtype] = known
                self._memory.places.clear()
            scratch = known
        else:
            scratch = torch.empty(length, dtype=dtype)
        numbers = scratch[: grid.size]
        table = numbers.view(grid.rows, grid.columns)
        of_rows = torch.zeros(SLICES * grid.row_slice, dtype=dtype)
        of_columns = torch.zeros(SLICES * grid.column_slice, dtype=dtype)
        whole = torch.zeros(NUMBERS)
        half = FLAT // 2
        return _Place(
            self._signs_of(grid, dtype, scratch.device),
            numbers,
            scratch[grid.size : length] if length > grid.size else None,
            scratch[:length].view(grid.lines, grid.width),
            torch.empty((DEEP + 2, grid.width), dtype=dtype),
            table,
            table.t(),
            of_rows[: grid.rows],
            of_rows.view(SLICES, -1),
            of_columns[: grid.columns],
            of_columns.view(SLICES, -1),
            (
                whole[:half].view(DEEP, -1),
                whole[half:FLAT].view(-1, DEEP),
                whole[FLAT : FLAT + SLICES],
                whole[FLAT + SLICES :],
            ),
            whole,
        )

    def _signs_of(self, grid: Grid, dtype: torch.dtype, device: torch.device) -> _Signs:
        key = (grid, dtype, device)
        known = self._signs.get(key)
        if known is None:
            if len(self._signs) >= _KEPT_SHAPES:
                self._signs.clear()
            known = self._signs[key] = _signs(grid, dtype, device)
        return known

    # -- on accelerators ----------------------------------------------------------------------

    def _add_waiting(self, plain: torch.Tensor) -> int | None:
        try:
            row = self._there(plain)
        except (RuntimeError, NotImplementedError):
            return None  # a type that the device cannot convert
        with self._lock:
            number = self._taken + len(self._rows)
            self._rows.append(None)
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
            plane = _filled(numbers, grid.lines * grid.width).view(grid.lines, grid.width)
            sums = signs.lines @ plane
            parts = [sums[:DEEP] @ signs.width_groups, sums[DEEP:] @ signs.width]
        rows = _filled(table @ signs.columns, SLICES * grid.row_slice).view(SLICES, -1)
        columns = _filled(signs.rows @ table, SLICES * grid.column_slice).view(SLICES, -1)
        parts += [rows @ signs.row_slice, columns @ signs.column_slice]
        return torch.cat([*(part.reshape(-1).double() for part in parts), counts])

    # -- to the file --------------------------------------------------------------------------

    def take(self) -> list[bytes]:
        """The rows since the last call, those on accelerators as well."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            first = self._taken
            by_device: dict[torch.device, list[tuple[int, torch.Tensor]]] = {}
            for number, row in waiting:
                by_device.setdefault(row.device, []).append((number, row))
            for device, rows in by_device.items():
                _wait_for(device)
                copied = torch.stack([row for _, row in rows]).cpu()
                numbers = copied[:, :NUMBERS].float().contiguous().numpy()
                for place, (number, _) in enumerate(rows):
                    nans, infinities = copied[place, NUMBERS:].tolist()
                    content = numbers[place].tobytes()
                    self._rows[number - first] = packed_row(content, int(nans), int(infinities))
            rows_now: list[bytes] = [row for row in self._rows if row is not None]
            self._rows = []
            self._taken += len(rows_now)
            return rows_now

    def end_step(self) -> None:
        """Number from 0 again; what was not taken is dropped."""
        with self._lock:
            self._rows, self._waiting, self._taken = [], [], 0


def _sum_up(place: _Place) -> None:
    signs = place.signs
    first, second, rows, columns = place.results
    if place.numbers.numel() <= FLAT:
        place.whole[: place.numbers.numel()] = place.numbers
    else:
        if place.rest is not None:
            place.rest.zero_()
        torch.mm(signs.lines, place.plane, out=place.sums)
        _into(first, place.sums[:DEEP], signs.width_groups)
        _into(second, place.sums[DEEP:], signs.width)
    torch.mv(place.table, signs.columns, out=place.of_rows)
    _into(rows, place.sliced_rows, signs.row_slice)
    torch.mv(place.turned, signs.rows, out=place.of_columns)
    _into(columns, place.sliced_columns, signs.column_slice)


def _into(result: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    if left.dtype is result.dtype:
        torch.matmul(left, right, out=result)
    else:
        result.copy_(left @ right)


def _signs(grid: Grid, dtype: torch.dtype, device: torch.device) -> _Signs:
    flat = flat_signs(max(grid.lines, grid.width))

    def there(*parts: object) -> torch.Tensor:
        return torch.cat([torch.from_numpy(part) for part in parts]).to(device, dtype)

    return _Signs(
        there(flat.lines[:, : grid.lines], flat.line_groups[:, : grid.lines]),
        (there(flat.width_groups[:, : grid.width]) * _SCALE).t().contiguous(),
        (there(flat.width[:, : grid.width]) * _SCALE).t().contiguous(),
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
    return math.isfinite(high) and math.isfinite(low) and -_LARGEST < low and high < _LARGEST


def _filled(numbers: torch.Tensor, length: int) -> torch.Tensor:
    """With zeros behind."""
    return torch.nn.functional.pad(numbers, (0, length - numbers.numel()))


def _wait_for(device: torch.device) -> None:
    synchronize = getattr(getattr(torch, device.type, None), "synchronize", None)
    if synchronize is not None:
        synchronize(device)
