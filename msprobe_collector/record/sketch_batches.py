"""Sums of tensors on the host by the definition of sketches, several of one shape together."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from msprobe_builder.base.codes import SLICES
from msprobe_builder.sketch.definition import (
    FLAT,
    Grid,
    column_signs,
    flat_signs,
    matrix_of,
    row_signs,
)

_SLOTS = 48  # whole blocks of every library, so that each row of a product is summed alike
_FEW_SLOTS = 12  # of long tensors, which a product of fewer rows serves
_LONG = 1 << 15  # numbers
SHORT = 1 << 9  # numbers, up to which one product with a matrix is the whole sketch
_IN_PLACE = 1 << 16  # numbers, from which on a copy costs more than views do
_PIECE = 1 << 17  # numbers of which half a megabyte stays in a core's own cache
_ALIGNMENT = 16  # numbers of 64 bytes
_SCALE = FLAT**-0.5
_Room: TypeAlias = Callable[[int, torch.dtype], torch.Tensor]


class Signs(NamedTuple):
    """The signs of a layout on a device; the scale of the flat sums is in the larger matrices."""

    along_narrow: torch.Tensor  # (width of the narrow plane,)
    narrow_lines: torch.Tensor  # (its lines, DEEP)
    wide_lines: torch.Tensor  # (lines of the wide plane,)
    along_wide: torch.Tensor  # (its width, DEEP)
    rows: torch.Tensor  # (R,)
    columns: torch.Tensor  # (C,)
    row_slice: torch.Tensor
    column_slice: torch.Tensor


class _Laid(NamedTuple):
    """A tensor as each of the first sums reads it."""

    flat: torch.Tensor  # (N,), aligned
    table: torch.Tensor  # (R, C)
    across: torch.Tensor  # (C, R)
    narrow: torch.Tensor  # the lines of the narrow plane
    narrow_rest: torch.Tensor | None  # what is behind whole lines, if that is read by itself
    wide: torch.Tensor  # the places in lines of the wide plane, by place
    wide_rest: torch.Tensor | None


def _laid_in_place(flat: torch.Tensor, grid: Grid) -> _Laid:
    """A long tensor where it is: its memory ends with its numbers."""
    planes: list[torch.Tensor | None] = []
    for width in (grid.narrow.width, grid.wide.width):
        lines, rest = divmod(grid.size, width)
        planes += [flat[: lines * width].view(lines, width), flat[-rest:] if rest else None]
    narrow, narrow_rest, wide, wide_rest = planes
    assert narrow is not None
    assert wide is not None
    table = flat.view(grid.rows, grid.columns)
    return _Laid(flat, table, table.t(), narrow, narrow_rest, wide.t(), wide_rest)


def _laid_in_zeros(grid: Grid, dtype: torch.dtype) -> _Laid:
    """Memory to copy tensors of a shape to, with zeros behind up to the ends of both planes."""
    narrow, wide = (plane.lines * plane.width for plane in (grid.narrow, grid.wide))
    flat = torch.zeros(max(narrow, wide), dtype=dtype)
    table = flat[: grid.size].view(grid.rows, grid.columns)
    lines = flat[:narrow].view(grid.narrow)
    places = flat[:wide].view(grid.wide).t()
    return _Laid(flat[: grid.size], table, table.t(), lines, None, places, None)


class ShortBatch:
    """Tensors of one shape that are short: a single product makes all of their sketches.

    It always has all rows, so that equal tensors have equal bytes whatever comes beside them.
    """

    slots = _SLOTS

    def __init__(self, grid: Grid, dtype: torch.dtype) -> None:
        self.waiting: list[tuple[int, int, int]] = []  # row, NaN and infinities of each slot used
        self._flat = _aligned(_SLOTS, grid.size, dtype)
        self._slots = list(self._flat)
        self._tables = [one.view(grid.rows, grid.columns) for one in self._slots]
        self._matrix = torch.from_numpy(matrix_of(grid)).to(dtype)

    def add(self, plain: torch.Tensor, is_finite: bool, number: int) -> None:
        """Take a copy of a tensor."""
        slot = len(self.waiting)
        _copy(plain, self._tables[slot])
        left_out = (0, 0) if is_finite else _take_out(self._slots[slot])
        self.waiting.append((number, *left_out))

    def sums(self) -> torch.Tensor:
        """The sketches of all slots, (slots, NUMBERS) of float32; the last ones may be unused."""
        return (self._flat @ self._matrix).float()


class Batch:
    """Tensors of one shape: the first sums at once, the second of all slots together.

    Each slot has the same operators at memory that begins alike, and a product always has all rows,
    so that equal tensors have equal bytes whatever comes beside them.
    """

    def __init__(
        self, grid: Grid, signs: Signs, dtype: torch.dtype, room: _Room, *, is_flat: bool
    ) -> None:
        """``room`` gives memory for a copy of a long tensor, until it is called again.

        Where it ``is_flat`` the sums of rows and columns, two reads of four, stay zero.
        """
        self.is_flat = is_flat
        self.grid = grid
        self.room = room
        self.signs = signs
        self.dtype = dtype
        self.slots = slots = _SLOTS if grid.size < _LONG else _FEW_SLOTS
        self.waiting: list[tuple[int, int, int]] = []  # row, NaN and infinities of each slot used
        self.is_long = grid.size >= _IN_PLACE
        self.own = None if self.is_long else _laid_in_zeros(grid, dtype)
        self.narrow = _aligned(slots, grid.narrow.lines, dtype)
        self.wide = _aligned(slots, grid.wide.width, dtype)
        self.rows = torch.zeros((slots, SLICES * grid.row_slice), dtype=dtype)
        self.columns = torch.zeros((slots, SLICES * grid.column_slice), dtype=dtype)
        # What the operators read and write, made once.
        lines, self.rest = divmod(grid.size, grid.narrow.width) if self.is_long else (None, 0)
        self.to_narrow = list(self.narrow[:, :lines])
        self.to_narrow_rest = list(self.narrow[:, -1])
        lines, rest = divmod(grid.size, grid.wide.width) if self.is_long else (None, 0)
        self.whole_lines = signs.wide_lines[:lines]
        self.to_wide = list(self.wide)
        self.to_wide_rest = list(self.wide[:, :rest])
        self.last_line = float(signs.wide_lines[-1])
        self.to_rows = list(self.rows[:, : grid.rows])
        self.to_columns = list(self.columns[:, : grid.columns])

    def add(self, plain: torch.Tensor, is_finite: bool, number: int) -> None:
        """Take the first sums of a tensor."""
        left_out = (0, 0)
        if is_finite and self.is_long and _is_aligned(plain, self.dtype):
            laid = _laid_in_place(plain.detach().view(-1), self.grid)
        else:
            laid = self.own or _laid_in_place(self.room(self.grid.size, self.dtype), self.grid)
            _copy(plain, laid.table)
            if not is_finite:
                left_out = _take_out(laid.flat)
        slot, signs, mv = len(self.waiting), self.signs, torch.mv
        if self.is_flat and self.is_long:
            self._sum_planes(laid, slot)
        else:
            mv(laid.narrow, signs.along_narrow, out=self.to_narrow[slot])
            mv(laid.wide, self.whole_lines, out=self.to_wide[slot])
        if laid.narrow_rest is not None:
            along = signs.along_narrow[: self.rest]
            torch.dot(laid.narrow_rest, along, out=self.to_narrow_rest[slot])
        if laid.wide_rest is not None:
            self.to_wide_rest[slot].add_(laid.wide_rest, alpha=self.last_line)
        if not self.is_flat:
            mv(laid.table, signs.columns, out=self.to_rows[slot])
            mv(laid.across, signs.rows, out=self.to_columns[slot])
        self.waiting.append((number, *left_out))

    def _sum_planes(self, laid: _Laid, slot: int) -> None:
        """Both planes piece by piece, so that the second is read from the cache."""
        wide, narrow = self.grid.wide.width, self.grid.narrow.width
        lines, whole = laid.wide.shape[1], laid.narrow.shape[0]
        to_wide, to_narrow = self.to_wide[slot].zero_(), self.to_narrow[slot]
        step = max(1, _PIECE // wide)
        done = 0
        for first in range(0, lines, step):
            last = min(first + step, lines)
            to_wide.addmv_(laid.wide[:, first:last], self.whole_lines[first:last])
            reached = whole if last == lines else last * wide // narrow
            along = self.signs.along_narrow
            torch.mv(laid.narrow[done:reached], along, out=to_narrow[done:reached])
            done = reached

    def sums(self) -> torch.Tensor:
        """The sketches of all slots, (slots, NUMBERS) of float32; the last ones may be unused."""
        signs, slots, grid = self.signs, self.slots, self.grid
        of_rows = self.rows.view(-1, grid.row_slice) @ signs.row_slice
        of_columns = self.columns.view(-1, grid.column_slice) @ signs.column_slice
        parts = (
            self.narrow @ signs.narrow_lines,
            self.wide @ signs.along_wide,
            of_rows.view(slots, SLICES),
            of_columns.view(slots, SLICES),
        )
        return torch.cat(parts, 1).float()


def _copy(plain: torch.Tensor, table: torch.Tensor) -> None:
    table.copy_(plain if plain.dim() == 2 else plain.reshape(table.shape))


def _aligned(slots: int, length: int, dtype: torch.dtype) -> torch.Tensor:
    """Memory of which each slot begins alike: the order of sums in a library depends on it."""
    stride = -(-length // _ALIGNMENT) * _ALIGNMENT
    return torch.zeros((slots, stride), dtype=dtype)[:, :length]


def signs_of(grid: Grid, dtype: torch.dtype, device: torch.device) -> Signs:
    flat = flat_signs(max(grid.narrow.lines, grid.wide.width))

    def there(signs: npt.NDArray[np.int8]) -> torch.Tensor:
        return torch.from_numpy(signs).to(device, dtype)

    return Signs(
        there(flat.along_narrow[0, : grid.narrow.width]),
        there(flat.narrow_lines[:, : grid.narrow.lines].T.copy()) * _SCALE,
        there(flat.wide_lines[0, : grid.wide.lines]),
        there(flat.along_wide[:, : grid.wide.width].T.copy()) * _SCALE,
        there(row_signs(grid.rows)),
        there(column_signs(grid.columns)),
        there(row_signs(grid.row_slice)),
        there(column_signs(grid.column_slice)),
    )


def _is_aligned(plain: torch.Tensor, dtype: torch.dtype) -> bool:
    """Whether the sums can read a tensor where it is, with the same bytes as a copy of it."""
    if plain.dtype is not dtype or not plain.is_contiguous():
        return False
    return plain.data_ptr() % (_ALIGNMENT * dtype.itemsize) == 0


def _take_out(numbers: torch.Tensor) -> tuple[int, int]:
    """Put 0 for what is not finite as float32; how many are NaN and infinite."""
    numbers.copy_(numbers.float())
    nans, infinities = int(numbers.isnan().sum()), int(numbers.isinf().sum())
    numbers.nan_to_num_(0.0, 0.0, 0.0)
    return nans, infinities
