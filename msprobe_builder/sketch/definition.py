"""What the 64 numbers of a sketch are; ``docs/design/sketch.md`` gives the formula and its reasons.

32 numbers by the flat order keep under ``reshape``; 16 by slices of rows (all dimensions but the
last) and 16 by slices of columns (the last one) tell where tensors differ. Each is a sum with
fixed signs, so the sketch of a difference is the difference of the sketches.
"""

from __future__ import annotations

from functools import lru_cache
from math import isqrt
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from msprobe_builder.base.codes import SLICES

Numbers: TypeAlias = "npt.NDArray[np.float32]"

FLAT = 32
NUMBERS = FLAT + 2 * SLICES  # of a sketch: flat, rows, columns
DEEP = FLAT // 2  # sums of each of the two planes
PERIOD = 64  # of the signs of rows and columns, so that shards cut at its multiples add up

# Bit i is set where the sign of position i is +. Their sum is 4 in each period and the sum of the
# first n is near the root of n, so that constant parts neither vanish nor outweigh the rest.
ROW_BITS, COLUMN_BITS = 0x4C3E1F94944FAB6B, 0xD01B43DB55CA63DB
_WORD = (1 << 64) - 1


class Plane(NamedTuple):
    """A flat order in lines: element p is at (p // width, p % width); the last may be short."""

    lines: int
    width: int


class Grid(NamedTuple):
    """How a tensor is laid out for its sketch."""

    size: int  # of all elements
    rows: int  # the product of all dimensions but the last
    columns: int  # the last dimension
    narrow: Plane
    wide: Plane
    row_slice: int  # rows in a slice
    column_slice: int


class FlatSigns(NamedTuple):
    """The signs of the flat order, +1 and -1, for ``length`` positions."""

    along_narrow: npt.NDArray[np.int8]  # (1, length): u, of the places in a line
    narrow_lines: npt.NDArray[np.int8]  # (DEEP, length): V
    wide_lines: npt.NDArray[np.int8]  # (1, length): u'
    along_wide: npt.NDArray[np.int8]  # (DEEP, length): V'


@lru_cache(maxsize=1024)
def grid_of(shape: tuple[int, ...]) -> Grid:
    """The layout of a tensor; one number is a row of one, one dimension is one row."""
    columns = shape[-1] if shape else 1
    size = 1
    for length in shape:
        size *= length
    rows = size // columns if columns else 0
    root = isqrt(size)
    # Odd, so that no dimension of a tensor, mostly even ones, comes to lie along a plane.
    narrow, wide = _plane(size, root // 4 | 1), _plane(size, 4 * root | 1)
    return Grid(size, rows, columns, narrow, wide, slice_length(rows), slice_length(columns))


def _plane(size: int, width: int) -> Plane:
    return Plane(-(-size // width), width)


def slice_length(length: int) -> int:
    """How many of ``length`` rows or columns are in each slice; the last slices may be empty."""
    part = -(-length // SLICES)
    return part if part <= PERIOD else -(-part // PERIOD) * PERIOD


def slices_in(length: int) -> int:
    """How many slices of ``length`` rows or columns are not empty."""
    return -(-length // slice_length(length)) if length else 0


def slices_of_ones(grid: Grid) -> npt.NDArray[np.float64]:
    """The sums by slices of a tensor of nothing but 1, (2 * SLICES,), without making one."""
    result = np.zeros(2 * SLICES)
    for first, bits, length, part, across in (
        (0, ROW_BITS, grid.rows, grid.row_slice, _sum_of_signs(COLUMN_BITS, grid.columns)),
        (
            SLICES,
            COLUMN_BITS,
            grid.columns,
            grid.column_slice,
            _sum_of_signs(ROW_BITS, grid.rows),
        ),
    ):
        for place in range(slices_in(length)):
            own = min(part, length - place * part)
            result[first + place] = _sum_of_signs(bits, own) * across
    return result


def _sum_of_signs(bits: int, length: int) -> int:
    """Of the first ``length`` of periodic signs."""
    periods, rest = divmod(length, PERIOD)
    return 2 * (periods * bits.bit_count() + (bits & (1 << rest) - 1).bit_count()) - length


def row_signs(length: int) -> npt.NDArray[np.int8]:
    """r: the signs of the first ``length`` rows, of all or of a slice."""
    return _periodic(ROW_BITS, length)


def column_signs(length: int) -> npt.NDArray[np.int8]:
    """c: the signs of the first ``length`` columns, of all or of a slice."""
    return _periodic(COLUMN_BITS, length)


def _periodic(bits: int, length: int) -> npt.NDArray[np.int8]:
    signs = [1 if bits >> place & 1 else -1 for place in range(PERIOD)]
    return np.resize(np.array(signs, np.int8), length)


def flat_signs(length: int) -> FlatSigns:
    """The signs of the flat order for at least ``length`` lines and places in them."""
    return _flat_signs(1 << max(6, (length - 1).bit_length()))


@lru_cache(maxsize=32)
def _flat_signs(length: int) -> FlatSigns:
    return FlatSigns(
        _chance_signs(0, length, 1),
        _chance_signs(1, length, DEEP),
        _chance_signs(2, length, 1),
        _chance_signs(3, length, DEEP),
    )


def _chance_signs(table: int, length: int, depth: int) -> npt.NDArray[np.int8]:
    """``depth`` signs of each position; all are turned where their sums would leave a band.

    The sum of the squared sums of the first n stays near ``depth`` times n, as of true chance, so
    that what is constant is seen in its true size.
    """
    sums = [0] * depth
    signs = []
    for place in range(length):
        word = _mixed(table << 32 | place)
        new = [1 if word >> bit & 1 else -1 for bit in range(depth)]
        along = sum(before * sign for before, sign in zip(sums, new, strict=True))
        square, wanted = sum(before * before for before in sums), depth * place
        if (along > 0 and 5 * square > 7 * wanted) or (along < 0 and 10 * square < 7 * wanted):
            new = [-sign for sign in new]
        sums = [before + sign for before, sign in zip(sums, new, strict=True)]
        signs.append(new)
    return np.array(signs, np.int8).T


def _mixed(counter: int) -> int:
    """SplitMix64 of a counter: 64 bits without a pattern, the same on any machine."""
    word = (counter + 1) * 0x9E3779B97F4A7C15 & _WORD
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    word = (word ^ word >> 27) * 0x94D049BB133111EB & _WORD
    return word ^ word >> 31


def matrix_of(grid: Grid) -> Numbers:
    """What the elements of a small tensor are multiplied with, (N, NUMBERS)."""
    places = np.arange(grid.size)
    matrix = np.zeros((grid.size, NUMBERS), np.float32)
    if grid.size <= FLAT:
        matrix[places, places] = 1
    else:
        signs = flat_signs(max(grid.narrow.lines, grid.wide.width))
        line, place = np.divmod(places, grid.narrow.width)
        matrix[:, :DEEP] = (signs.along_narrow[0, place] * signs.narrow_lines[:, line]).T
        line, place = np.divmod(places, grid.wide.width)
        matrix[:, DEEP:FLAT] = (signs.wide_lines[0, line] * signs.along_wide[:, place]).T
        matrix[:, :FLAT] *= FLAT**-0.5
    row, column = np.divmod(places, grid.columns)
    across = column_signs(grid.columns)[column]
    matrix[places, FLAT + row // grid.row_slice] = (
        row_signs(grid.row_slice)[row % grid.row_slice] * across
    )
    down = row_signs(grid.rows)[row]
    within = column_signs(grid.column_slice)[column % grid.column_slice]
    matrix[places, FLAT + SLICES + column // grid.column_slice] = within * down
    return matrix


class Sketch(NamedTuple):
    """The numbers of one tensor, (NUMBERS,), and what was left out of them."""

    numbers: Numbers
    nans: int
    infinities: int


def sketch_of(array: npt.NDArray[Any]) -> Sketch:
    """The sketch of an array in its logical order, summed in float64.

    A complex number counts as two beside each other along the last dimension.
    """
    if array.dtype.kind == "c":
        wide = np.stack((array.real, array.imag), axis=-1)
        array = wide.reshape((*array.shape[:-1], -1) if array.shape else (2,))
    with np.errstate(over="ignore"):
        values = array.astype(np.float32).astype(np.float64)
    nans, infinities = np.isnan(values), np.isinf(values)
    values = np.where(nans | infinities, 0, values)
    grid = grid_of(values.shape)
    numbers = np.concatenate((_flat(values.reshape(-1), grid), *_rows_and_columns(values, grid)))
    with np.errstate(over="ignore"):
        return Sketch(numbers.astype(np.float32), int(nans.sum()), int(infinities.sum()))


def _flat(values: npt.NDArray[np.float64], grid: Grid) -> npt.NDArray[np.float64]:
    if grid.size <= FLAT:  # the numbers themselves
        return np.resize(np.append(values, np.zeros(FLAT - grid.size)), FLAT)
    signs = flat_signs(max(grid.narrow.lines, grid.wide.width))
    (lines, width), plane = grid.narrow, _in_lines(values, grid.narrow)
    first = signs.narrow_lines[:, :lines] @ (plane @ signs.along_narrow[0, :width])
    (lines, width), plane = grid.wide, _in_lines(values, grid.wide)
    second = signs.along_wide[:, :width] @ (signs.wide_lines[0, :lines] @ plane)
    return np.asarray(np.concatenate((first, second)) / FLAT**0.5)


def _in_lines(values: npt.NDArray[np.float64], plane: Plane) -> npt.NDArray[np.float64]:
    full = np.zeros(plane.lines * plane.width)
    full[: len(values)] = values
    return full.reshape(plane.lines, plane.width)


def _rows_and_columns(
    values: npt.NDArray[np.float64], grid: Grid
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    table = values.reshape(grid.rows, grid.columns)
    of_rows = np.zeros(SLICES * grid.row_slice)
    of_rows[: grid.rows] = table @ column_signs(grid.columns)
    of_columns = np.zeros(SLICES * grid.column_slice)
    of_columns[: grid.columns] = row_signs(grid.rows) @ table
    return (
        of_rows.reshape(SLICES, -1) @ row_signs(grid.row_slice),
        of_columns.reshape(SLICES, -1) @ column_signs(grid.column_slice),
    )
