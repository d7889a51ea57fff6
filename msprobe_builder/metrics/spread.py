"""Where and how two tensors differ, from their elements, piece by piece: what sketches estimate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import SLICES
from msprobe_builder.facts.fact import Facts
from msprobe_builder.metrics.where import Shape, difference_words
from msprobe_builder.sketch.definition import (
    FLAT,
    PERIOD,
    Grid,
    column_signs,
    grid_of,
    row_signs,
    slices_in,
)
from msprobe_builder.sketch.estimates import layouts_of, moved_slices, named
from msprobe_builder.sketch.layout import rows_of

Float = NDArray[np.float64]

_FEWEST = 4  # elements; the shares of fewer say nothing


@dataclass(frozen=True)
class Spread:
    """What one pair of tensors that differ tells; a share is NaN where it cannot be told."""

    relative: float  # ‖n - b‖ / ‖b‖
    factor_share: float
    offset_share: float
    slices: NDArray[np.uint8]  # (2 * SLICES,): shares of the squares, 255 is all
    said: Facts


class _Sums:
    """What is added up over the pieces."""

    def __init__(self) -> None:
        self.squares = np.zeros(2 * SLICES)  # of the difference by slices
        self.signed = np.zeros((2, 2 * SLICES))  # as in a sketch, of both tensors
        self.difference = self.reference = 0.0  # squares
        self.product = self.total = 0.0  # of the difference and the reference, of the difference


def spread(shape: Shape, pieces: Iterable[tuple[NDArray[Any], NDArray[Any]]]) -> Spread:
    """Of corresponding pieces of two tensors in their order; NaN and infinities count as 0."""
    with np.errstate(all="ignore"):  # numbers whose squares leave the range
        return _spread(shape, pieces)


def _spread(shape: Shape, pieces: Iterable[tuple[NDArray[Any], NDArray[Any]]]) -> Spread:
    sums, at, is_complex = _Sums(), 0, False
    grid: Grid | None = None
    for n, b in pieces:
        if grid is None:
            is_complex = "c" in n.dtype.kind + b.dtype.kind
            grid = grid_of(_of_numbers(shape, is_complex=is_complex))
        own, other = (_numbers(one, is_complex=is_complex) for one in (n, b))
        left_out = ~(np.isfinite(own) & np.isfinite(other))
        if left_out.any():
            own, other = (np.where(left_out, 0.0, one) for one in (own, other))
        _add(sums, grid, at, own, other)
        at += len(own)
    assert grid is not None
    return _result(sums, _of_numbers(shape, is_complex=is_complex), grid)


def _of_numbers(shape: Shape, *, is_complex: bool) -> Shape:
    """A complex number counts as two beside each other."""
    if not is_complex:
        return shape
    return (*shape[:-1], 2 * shape[-1]) if shape else (2,)


def _numbers(piece: NDArray[Any], *, is_complex: bool) -> Float:
    if is_complex:
        return np.ascontiguousarray(piece, dtype=np.complex128).view(np.float64)
    return piece.astype(np.float64)


def _add(sums: _Sums, grid: Grid, at: int, n: Float, b: Float) -> None:
    """Add a piece that begins at an element: whole rows, or a part of one."""
    difference = n - b
    sums.difference += float((difference * difference).sum())
    sums.reference += float((b * b).sum())
    sums.product += float((difference * b).sum())
    sums.total += float(difference.sum())
    first, start = divmod(at, grid.columns)
    width = min(len(n), grid.columns - start)
    rows = np.arange(first, first + len(n) // width)
    columns = np.arange(start, start + width)
    own_row, own_column = rows // grid.row_slice, columns // grid.column_slice
    squares = (difference * difference).reshape(-1, width)
    sums.squares[:SLICES] += np.bincount(own_row, squares.sum(1), SLICES)
    sums.squares[SLICES:] += np.bincount(own_column, squares.sum(0), SLICES)
    r, c = row_signs(PERIOD).astype(np.float64), column_signs(PERIOD).astype(np.float64)
    inside_row, inside_column = rows % grid.row_slice % PERIOD, columns % grid.column_slice % PERIOD
    for signed, one in zip(sums.signed, (n, b), strict=True):
        table = one.reshape(-1, width)
        along = np.einsum("ij,j->i", table, c[columns % PERIOD])
        down = np.einsum("ij,i->j", table, r[rows % PERIOD])
        signed[:SLICES] += np.bincount(own_row, along * r[inside_row], SLICES)
        signed[SLICES:] += np.bincount(own_column, down * c[inside_column], SLICES)


def _result(sums: _Sums, shape: Shape, grid: Grid) -> Spread:
    norm = float(np.sqrt(sums.reference))
    relative = float(np.sqrt(sums.difference) / np.float64(norm))
    shares = sums.squares / np.float64(sums.difference)
    factor_share = sums.product * sums.product / np.float64(sums.difference * sums.reference)
    offset_share = sums.total * sums.total / np.float64(sums.difference * grid.size)
    factor = 1.0 + float(sums.product / np.float64(sums.reference))
    by_factor, by_offset = (
        float(np.clip(one, 0.0, 1.0)) if np.isfinite(one) and grid.size >= _FEWEST else np.nan
        for one in (factor_share, offset_share)
    )
    counts = np.array([slices_in(grid.rows)]), np.array([slices_in(grid.columns)])
    rows, columns = (
        int(named(part[None], count, by_chance=False)[0])
        for part, count in zip((sums.squares[:SLICES], sums.squares[SLICES:]), counts, strict=True)
    )
    own, other = (
        rows_of(np.r_[np.zeros(FLAT), signed][None], np.zeros(1), np.zeros(1))
        for signed in sums.signed
    )
    moved = moved_slices(own, other, np.array([norm]), layouts_of([shape]))[0]
    return Spread(
        relative=relative,
        factor_share=by_factor,
        offset_share=by_offset,
        slices=np.rint(255 * np.nan_to_num(shares)).astype(np.uint8),
        said=difference_words(
            shape, (rows, columns), moved, by_factor, by_offset, factor, sums.total / grid.size
        ),
    )
