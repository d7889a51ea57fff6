"""What sketches tell of the difference of two tensors of one shape, for many pairs at once.

Each slice has one signed sum, so which slices differ is told by chance, too: as few are named as
leave so little of the difference to the others as chance does once in ten thousand.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import comb, gamma
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from msprobe_builder.base.codes import SLICES
from msprobe_builder.sketch.definition import FLAT, grid_of, slices_in, slices_of_ones

Floats: TypeAlias = "npt.NDArray[np.float64]"
Ints: TypeAlias = "npt.NDArray[np.int64]"
Bools: TypeAlias = "npt.NDArray[np.bool_]"
Masks: TypeAlias = "npt.NDArray[np.uint16]"
Slices: TypeAlias = "npt.NDArray[np.int8]"
Bytes: TypeAlias = "npt.NDArray[np.uint8]"

NOWHERE = -1
_CHANCE = 1e-4
_MOST_LEFT = 0.1  # of the squares of a difference, to slices that are not named
# Of the norm: what float32 sums of equal numbers may differ by where they are added otherwise.
ROUNDING = 2e-6
_LITTLE = 0.02  # of the largest difference of a slice: less is no other slice
# How near two slices are that are one, of how much they differ in place, by how many do: all find
# another by chance once in a hundred thousand.
_NEAR = np.array([0, 0, 0.01, 0.03, 0.05, 0.07] + [0.1] * (SLICES - 5))
_SURELY_SHIFTED = 4  # slices


class Estimates(NamedTuple):
    """One entry for each pair; NaN where a sum is not finite."""

    relative: Floats  # norm of the difference beside that of the reference
    cosine: Floats
    factor_share: Floats  # of the squares of the difference, what a multiple of the reference is
    offset_share: Floats  # the same, what one number everywhere is
    factor: Floats  # by which the reference is multiplied, as far as a factor explains it
    offset: Floats  # what is added to it, as far as an offset does
    rows: Masks  # bit s is set where slice s of the rows differs; 0: everywhere, or nowhere
    columns: Masks
    shares: Bytes  # (n, 2 * SLICES): of the squares in rows, then in columns, 255 is all


class Layouts(NamedTuple):
    """What of n tensors follows from their shapes."""

    ones: Floats  # (n, 2 * SLICES): the sums by slices of a tensor of nothing but 1
    sizes: Ints  # (n,): elements
    slices: Ints  # (2, n): how many slices of rows and of columns there are

    def of(self, places: npt.NDArray[Any]) -> Layouts:
        """Those of some tensors."""
        return Layouts(self.ones[places], self.sizes[places], self.slices[:, places])


def layouts_of(shapes: Sequence[tuple[int, ...]]) -> Layouts:
    """The layouts of tensors of these shapes."""
    grids = [grid_of(shape) for shape in shapes]
    return Layouts(
        np.array([slices_of_ones(grid) for grid in grids]).reshape(-1, 2 * SLICES),
        np.array([grid.size for grid in grids], dtype=np.int64),
        np.array(
            [[slices_in(grid.rows), slices_in(grid.columns)] for grid in grids], dtype=np.int64
        )
        .reshape(-1, 2)
        .T,
    )


def estimates(
    ours: npt.NDArray[Any],
    reference: npt.NDArray[Any],
    our_norms: Floats,
    norms: Floats,
    layouts: Layouts,
) -> Estimates:
    """Of rows of the layout ROW, norms and layouts of n pairs; a norm is NaN where unknown."""
    with np.errstate(all="ignore"):
        mine = ours["numbers"].astype(np.float64)
        other = reference["numbers"].astype(np.float64)
        same = (ours["numbers"] == reference["numbers"]).all(1)
        our_norms = _known(our_norms, mine)
        norms = _known(norms, other)
        # Equal bits have no difference, sums that left the range of float32 among them.
        difference = np.where(same[:, None], 0.0, mine - other)
        flat = difference[:, :FLAT]
        distance = np.linalg.norm(flat, axis=1)
        relative = np.where(distance == 0, 0.0, distance / norms)
        relative = np.where(np.isfinite(distance), relative, np.nan)
        numbers = np.minimum(layouts.sizes, FLAT)
        factor, factor_share = explained(flat, other[:, :FLAT], numbers)
        numbers = np.minimum(layouts.sizes, layouts.slices.sum(0))
        offset, offset_share = explained(difference[:, FLAT:], layouts.ones, numbers)
        least = ROUNDING * norms
        parts = [difference[:, part] for part in _PARTS]
        rows, columns = (
            _differing(one, least, counts)
            for one, counts in zip(parts, layouts.slices, strict=True)
        )
        shares = np.concatenate([_shares(one) for one in parts], axis=1)
        cosine = _cosine(mine[:, :FLAT], other[:, :FLAT], our_norms, norms, distance)
    return Estimates(
        relative, cosine, factor_share, offset_share, 1.0 + factor, offset, rows, columns, shares
    )


_PARTS = (slice(FLAT, FLAT + SLICES), slice(FLAT + SLICES, FLAT + 2 * SLICES))


def _known(norms: Floats, numbers: Floats) -> Floats:
    """The recorded norms, and those that the sketch estimates where none was recorded."""
    estimated: Floats = np.linalg.norm(numbers[:, :FLAT], axis=1)
    return np.where(np.isnan(norms), estimated, norms)


def _cosine(
    ours: Floats, reference: Floats, norm: Floats, other: Floats, distance: Floats
) -> Floats:
    """From the distance, which is accurate where tensors are near, and from the angle elsewhere."""
    product = norm * other
    near = (norm**2 + other**2 - distance**2) / (2 * product)
    far = (ours * reference).sum(1)
    far /= np.linalg.norm(ours, axis=1) * np.linalg.norm(reference, axis=1)
    cosine = np.clip(np.where(near > _ALIKE, near, far), -1.0, 1.0)
    return np.where(product > 0, cosine, np.nan)


_ALIKE = 0.5


def explained(difference: Floats, by: Floats, numbers: Ints) -> tuple[Floats, Floats]:
    """The multiple of ``by`` nearest to each difference, and the share of squares it explains.

    ``numbers`` are free to differ; the share is NaN where they are too few to tell.
    """
    inner, square = (difference * by).sum(1), (by * by).sum(1)
    total = (difference * difference).sum(1)
    multiple = np.where(square > 0, inner / square, 0.0)
    share = np.where(square * total > 0, inner * inner / (square * total), 0.0)
    # Less what any vector explains of another one.
    share = 1.0 - (1.0 - share) * (numbers / (numbers - 1.0))
    is_told = np.isfinite(total) & (numbers >= _FEWEST)
    return multiple, np.where(is_told, np.clip(share, 0.0, 1.0), np.nan)


_FEWEST = 4


def _shares(difference: Floats) -> Bytes:
    squares = difference**2
    total = squares.sum(1, keepdims=True)
    shares = np.where((total > 0) & np.isfinite(total), squares / total, 0.0)
    return np.asarray(np.rint(255 * shares), dtype=np.uint8)


def _differing(difference: Floats, least: Floats, counts: Ints) -> Masks:
    """The slices that hold nearly all of a difference, of (n, SLICES), if they are few."""
    squares = np.where(np.abs(difference) > least[:, None], difference**2, 0.0)
    return named(squares, counts, by_chance=True)


def named(squares: Floats, counts: Ints, *, by_chance: bool) -> Masks:
    """The fewest slices that hold nearly all of ``squares``, (n, SLICES); 0 where that are many.

    ``counts`` tells how many slices there are, (n,). ``by_chance`` says that each square is that of
    a signed sum, which may be small by chance.
    """
    order = np.argsort(-squares, axis=1, kind="stable")
    held = np.cumsum(np.take_along_axis(squares, order, 1), 1)
    total = held[:, -1:]
    left = (total - held) / np.where(total > 0, total, 1.0)
    allowed = _allowed(by_chance)[np.clip(counts, 0, SLICES)]
    is_enough = (left <= allowed) & (total > 0)
    fewest = np.where(is_enough.any(1), is_enough.argmax(1), -1)
    is_named = np.arange(SLICES) <= fewest[:, None]
    bits = np.where(is_named, np.uint16(1) << order.astype(np.uint16), 0).sum(1)
    return np.asarray(bits, dtype=np.uint16)


@lru_cache(maxsize=2)
def _allowed(by_chance: bool) -> Floats:
    """By slices there are and place from 0: what those behind it may hold; -1: too many are named.

    The sum of r squares of chance is below s with the probability (s/2)^(r/2) / Γ(r/2 + 1).
    """
    result = np.full((SLICES + 1, SLICES), -1.0)
    for count in range(2, SLICES + 1):
        for few in range(1, count // 2 + 1):
            rest = count - few
            rare = (_CHANCE * gamma(rest / 2 + 1) / comb(count, few)) ** (2 / rest)
            most = min(2 * rare / count, _MOST_LEFT) if by_chance else _LEFT
            result[count, few - 1] = most
    return result


_LEFT = 0.01  # of squares that are known exactly


def moved_slices(
    ours: npt.NDArray[Any], reference: npt.NDArray[Any], norms: Floats, layouts: Layouts
) -> Slices:
    """Where the reference has what a slice holds that differs, NOWHERE unless all are found.

    (n, 2 * SLICES) of rows and of columns. Of a shift those at the edge need not be found.
    """
    with np.errstate(all="ignore"):
        mine, other = (side["numbers"].astype(np.float64) for side in (ours, reference))
        least = ROUNDING * _known(norms, other)
        found = [
            _moved(mine[:, part], other[:, part], least, counts)
            for part, counts in zip(_PARTS, layouts.slices, strict=True)
        ]
    return np.concatenate(found, axis=1)


def _moved(ours: Floats, reference: Floats, least: Floats, counts: Ints) -> Slices:
    result = np.full(ours.shape, NOWHERE, dtype=np.int8)
    is_there = np.arange(SLICES) < counts[:, None]
    apart = np.where(is_there, np.abs(ours - reference), 0.0)
    most = apart.max(1)
    differs = apart > np.fmax(least, _LITTLE * most)[:, None]
    at = np.flatnonzero(differs.sum(1) > 1)
    ours, reference, differs, most = ours[at], reference[at], differs[at], most[at]
    counts, least = counts[at], least[at]
    size = np.sqrt(np.where(differs, apart[at] ** 2, 0.0).sum(1) / differs.sum(1))
    near = np.fmax(least, _NEAR[differs.sum(1)] * size)
    found = _with_edge(ours, reference, differs, size, least, counts)
    # Of numbers that are the same in another order the smallest is the smallest, and so on.
    few = np.flatnonzero(_ends_alike(ours, reference, differs, near + _LITTLE * most))
    ours, reference, differs = ours[few], reference[few], differs[few]
    order, there = (np.argsort(np.where(differs, one, np.inf), 1) for one in (ours, reference))
    gaps = np.take_along_axis(ours, order, 1) - np.take_along_axis(reference, there, 1)
    worst = np.where(np.arange(SLICES) < differs.sum(1)[:, None], np.abs(gaps), 0.0).max(1)
    alike = np.flatnonzero(worst <= near[few] + _LITTLE * most[few])
    few = few[alike]
    sources = np.full((len(few), SLICES), NOWHERE)
    np.put_along_axis(sources, order[alike], there[alike], 1)
    sources = np.where(differs[alike], sources, NOWHERE)
    round_ = _all_round(ours[alike], reference[alike], sources, near[few], counts[few])
    is_order = (worst[alike] <= near[few])[:, None]
    exchanged = np.where(is_order & (sources != np.arange(SLICES)), sources, NOWHERE)
    found[few] = np.where((round_ >= 0).any(1, keepdims=True), round_, exchanged)
    result[at] = found
    return result


def _ends_alike(ours: Floats, reference: Floats, differs: Bools, near: Floats) -> Bools:
    """Whether the smallest and the largest of some numbers are, which most that differ are not."""
    result = np.ones(len(ours), dtype=bool)
    for end, nothing in ((np.min, np.inf), (np.max, -np.inf)):
        one, other = (end(np.where(differs, side, nothing), axis=1) for side in (ours, reference))
        result &= np.abs(one - other) <= near
    return result


def _all_round(
    ours: Floats, reference: Floats, sources: Ints, near: Floats, counts: Ints
) -> Slices:
    """The same of a shift in which what falls out at one end comes in at the other."""
    place = np.arange(SLICES)
    by = np.where(sources >= 0, (place - sources) % counts[:, None], NOWHERE)
    usual = (by[:, :, None] == place).sum(1).argmax(1)
    shifted = (place - usual[:, None]) % counts[:, None]
    gaps = np.abs(ours - np.take_along_axis(reference, shifted, 1))
    is_there = place < counts[:, None]
    is_so = ((gaps <= near[:, None]) | ~is_there).all(1) & (usual > 0)
    is_so &= (sources >= 0).sum(1) >= _SURELY_SHIFTED
    return np.where(is_so[:, None] & is_there, shifted, NOWHERE).astype(np.int8)


def _with_edge(
    ours: Floats, reference: Floats, differs: Bools, size: Floats, least: Floats, counts: Ints
) -> Slices:
    """The same of a short shift, of which nobody knows what came in at the edge."""
    result = np.full(ours.shape, NOWHERE, dtype=np.int8)
    every, place = np.arange(len(ours)), np.arange(SLICES)
    ends = SLICES - 1 - differs[:, ::-1].argmax(1), differs.argmax(1)
    for by in (-3, 3, -2, 2, -1, 1):
        # Of most that differ the one that is furthest from the edge is found nowhere near.
        end = ends[by < 0]
        source = np.clip(end - by, 0, SLICES - 1)
        gap = np.abs(ours[every, end] - reference[every, source])
        is_outside = (end - by < 0) | (end - by >= counts)
        at = np.flatnonzero(is_outside | (gap <= np.fmax(least, _NEAR[-1] * size)))
        here = slice(by, None) if by > 0 else slice(None, by)
        there = slice(None, -by) if by > 0 else slice(-by, None)
        is_there = (place[here] < counts[at, None]) & (place[there] < counts[at, None])
        kept = differs[at, here] & is_there
        near = np.fmax(least[at], _NEAR[kept.sum(1)] * size[at])[:, None]
        is_near = np.abs(ours[at, here] - reference[at, there]) <= near
        is_so = (is_near | ~kept).all(1) & (kept.sum(1) >= _SURELY_SHIFTED)
        result[at[is_so]] = NOWHERE
        is_found = is_there[is_so] & is_near[is_so]
        result[at[is_so], here] = np.where(is_found, place[there], NOWHERE)
    return result


def slices_of(mask: int) -> list[int]:
    """The slices of a mask, in order."""
    return [place for place in range(SLICES) if mask >> place & 1]
