"""Where two tensors differ, in words: slices as rows, columns or indices of a dimension.

A tensor is laid out as rows, all dimensions but the last, by columns, the last one. Slices of rows
that are all of one index in a dimension, such as a head's, are told by that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import SLICES
from msprobe_builder.facts.fact import Fact, Facts, fact
from msprobe_builder.sketch.definition import slice_length
from msprobe_builder.sketch.estimates import slices_of

Shape = tuple[int, ...]
Run = tuple[int, int, int]  # first, behind the last, how much further the reference has it

MERE = 0.99  # share of a difference that is said to be nothing but a factor or an offset
_MOST_EXCHANGES = 4  # that are listed


def difference_words(
    shape: Shape,
    masks: tuple[int, int],
    moved: NDArray[np.int8],
    factor_share: float,
    offset_share: float,
    factor: float,
    offset: float,
) -> Facts:
    """Where two tensors differ, else what kind of difference it is.

    ``masks`` are the slices of rows and columns that differ, ``moved`` is (2 * SLICES,).
    """
    found = _where(shape, *masks, moved.tobytes())
    if not found and factor_share > MERE:
        return (fact("where.factor", times=float(f"{factor:.4g}")),)
    if not found and offset_share > MERE:
        return (fact("where.offset", by=float(f"{offset:.3g}")),)
    return found


@lru_cache(maxsize=4096)
def _where(shape: Shape, rows: int, columns: int, moved: bytes) -> Facts:
    sources = np.frombuffer(moved, np.int8).tolist()
    return tuple(where_words(shape, rows, columns, sources[:SLICES], sources[SLICES:]))


def where_words(
    shape: Shape, rows: int, columns: int, moved_rows: Sequence[int], moved_columns: Sequence[int]
) -> list[Fact]:
    """What masks of differing slices, and where each slice was moved from (-1: not), come to."""
    found = []
    last = max(0, len(shape) - 1)
    dimensions = [
        _axis(shape, range(last), is_last=False),
        _axis(shape, range(last, len(shape)), is_last=True),
    ]
    for dimension, sources in zip(dimensions, (moved_rows, moved_columns), strict=True):
        moved = {place: source for place, source in enumerate(sources) if source >= 0}
        if moved:
            found.append(_moved(dimension, moved))
    if found:
        return found
    spans = [
        _only(dimension, slices_of(mask))
        for dimension, mask in zip(dimensions, (rows, columns), strict=True)
        if mask
    ]
    return [fact("where.only", spans=spans)] if spans else []


@dataclass(frozen=True)
class _Axis:
    """Rows or columns of a layout; ``dimensions`` of the tensor are those longer than 1 in it.

    ``is_last`` says that it is that of the columns.
    """

    shape: Shape
    dimensions: tuple[int, ...]
    length: int
    is_last: bool

    @property
    def slice(self) -> int:
        """How many rows or columns are in a slice."""
        return slice_length(self.length)

    def bounds(self, place: int) -> tuple[int, int]:
        """The first of a slice, and that behind its last."""
        return place * self.slice, min((place + 1) * self.slice, self.length)

    def stride(self, dimension: int) -> int:
        """How many rows or columns an index of a dimension takes."""
        return prod(self.shape[one] for one in self.dimensions if one > dimension)


def _axis(shape: Shape, dimensions: range, *, is_last: bool) -> _Axis:
    long = tuple(one for one in dimensions if shape[one] > 1)
    return _Axis(shape, long, prod(shape[one] for one in dimensions), is_last)


def _only(axis: _Axis, slices: list[int]) -> Fact:
    """The part of an axis in which alone tensors differ."""
    bounds = list(map(axis.bounds, slices))
    others = [axis.bounds(one) for one in range(-(-axis.length // axis.slice)) if one not in slices]
    told = []
    for dimension in axis.dimensions if len(axis.dimensions) > 1 else ():
        stride, size = axis.stride(dimension), axis.shape[dimension]
        own, other = _indices(bounds, stride, size), _indices(others, stride, size)
        if not own & other:
            told.append((len(own) / size, dimension, own))
    if told:
        _, dimension, own = min(told)
        return _span(axis, dimension, _joined((one, one + 1) for one in sorted(own)))
    only = axis.dimensions[0] if len(axis.dimensions) == 1 else None
    return _span(axis, only, _joined(bounds))


def _indices(bounds: Iterable[tuple[int, int]], stride: int, size: int) -> set[int]:
    """The indices of a dimension that some rows have."""
    found: set[int] = set()
    for first, end in bounds:
        low, high = first // stride, (end - 1) // stride
        if high - low + 1 >= size:
            return set(range(size))
        found |= {one % size for one in range(low, high + 1)}
    return found


def _joined(bounds: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    result: list[tuple[int, int]] = []
    for first, end in bounds:
        if result and result[-1][1] == first:
            result[-1] = result[-1][0], end
        else:
            result.append((first, end))
    return result


def _span(axis: _Axis, dimension: int | None, parts: Sequence[tuple[int, int]]) -> Fact:
    """Rows, columns or indices from one to another."""
    places = [_part(first, end) for first, end in parts]
    count = sum(end - first for first, end in parts)
    if len(axis.shape) < 2:
        return fact("span.elements", count=count, places=places)
    if len(axis.shape) == 2:
        code = "span.columns" if axis.is_last else "span.rows"
        return fact(code, count=count, places=places)
    if dimension is None:
        return fact("span.lines", count=count, places=places, lines=axis.length)
    return fact("span.dimension", count=count, places=places, dimension=dimension)


def _part(first: int, end: int) -> str:
    return str(first) if end == first + 1 else f"{first}–{end - 1}"


def _moved(axis: _Axis, moved: Mapping[int, int]) -> Fact:
    """What stands elsewhere: exchanged, shifted, or in another order."""
    dimension, moves, width, size = _along(axis, moved)
    runs = _runs(moves, width)
    by = {offset for _, _, offset in runs}
    if len(by) == 1 or (len(by) == 2 and max(by) - min(by) == size and len(moves) * width == size):
        shift = -min(by, key=abs)
        whole = _span(axis, dimension, [(0, size)])
        return fact("where.shifted", span=whole, by=abs(shift), way=_WAYS[shift > 0])
    exchanged = [(one, other) for one in runs for other in runs if _are_exchanged(one, other)]
    if 2 * len(exchanged) == len(runs) and len(exchanged) <= _MOST_EXCHANGES:
        parts = [_span(axis, dimension, [one[:2], other[:2]]) for one, other in exchanged]
        return fact("where.exchanged", spans=parts)
    parts_moved = _joined((first, end) for first, end, _ in runs)
    return fact("where.reordered", span=_span(axis, dimension, parts_moved))


_WAYS = fact("where.down"), fact("where.up")


def _along(axis: _Axis, moved: Mapping[int, int]) -> tuple[int | None, dict[int, int], int, int]:
    """The dimension in which slices moved, which index went where, how many each takes, its size.

    The dimension is None where it is that of all rows.
    """
    firsts = {place * axis.slice: source * axis.slice for place, source in moved.items()}
    several = axis.dimensions if len(axis.dimensions) > 1 else ()
    for dimension in several:
        stride, size = axis.stride(dimension), axis.shape[dimension]
        width = max(1, axis.slice // stride)
        indices: dict[int, int] = {}
        for own, there in firsts.items():
            one, other = own // stride % size, there // stride % size
            is_elsewhere = own - one * stride != there - other * stride
            if is_elsewhere or indices.setdefault(one, other) != other:
                break
        else:
            return dimension, indices, width, size
    only = axis.dimensions[0] if len(axis.dimensions) == 1 else None
    return only, firsts, axis.slice, axis.length


def _runs(moves: Mapping[int, int], width: int) -> list[Run]:
    """Neighbours that moved alike, and what lies between such."""
    runs: list[Run] = []
    for own, there in sorted(moves.items()):
        offset = there - own
        if runs and runs[-1][2] == offset and _may_have_moved(runs[-1], own, moves):
            runs[-1] = runs[-1][0], own + width, offset
        else:
            runs.append((own, own + width, offset))
    return runs


def _may_have_moved(run: Run, own: int, moves: Mapping[int, int]) -> bool:
    """Whether what lies between neighbours moved with them: a slice may look alike by chance."""
    first, end, offset = run
    between = range(end, own)
    is_little = own - end <= end - first
    return is_little and not any(one in moves or one + offset in moves for one in between)


def _are_exchanged(one: Run, other: Run) -> bool:
    is_first = one[0] < other[0]
    return (
        is_first
        and other[0] - one[0] == one[2] == -other[2]
        and one[1] - one[0] == other[1] - other[0]
    )
