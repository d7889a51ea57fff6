"""What sketches tell of the difference of two tensors of one shape, for many pairs at once."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from msprobe_builder.sketch.definition import FLAT, SLICES

Floats: TypeAlias = "npt.NDArray[np.float64]"
Masks: TypeAlias = "npt.NDArray[np.uint16]"

_MOST_OF_IT = 0.99  # of the squares of a difference, which the slices that are named hold
_FEW = SLICES // 2  # slices; a difference in more is everywhere
# Of the norm: what float32 sums of equal numbers may differ by where they are added otherwise.
ROUNDING = 2e-6


class Estimates(NamedTuple):
    """One entry for each pair; NaN where a sum is not finite."""

    relative: Floats  # norm of the difference beside that of the reference
    cosine: Floats
    rows: Masks  # bit s is set where slice s of the rows differs; 0: everywhere, or nowhere
    columns: Masks


def estimates(
    ours: npt.NDArray[Any], reference: npt.NDArray[Any], our_norms: Floats, norms: Floats
) -> Estimates:
    """Of rows of the layout ROW and of norms, all of (n,); norms may be NaN where unknown."""
    with np.errstate(all="ignore"):
        mine = ours["numbers"].astype(np.float64)
        other = reference["numbers"].astype(np.float64)
        our_norms = _known(our_norms, mine)
        norms = _known(norms, other)
        difference = mine - other
        distance = np.linalg.norm(difference[:, :FLAT], axis=1)
        relative = np.where(distance == 0, 0.0, distance / norms)
        product = our_norms * norms
        inner = (our_norms**2 + norms**2 - distance**2) / 2
        cosine = np.where(product > 0, np.clip(inner / product, -1.0, 1.0), np.nan)
        least = ROUNDING * norms
        rows = _differing(difference[:, FLAT : FLAT + SLICES], least)
        columns = _differing(difference[:, FLAT + SLICES :], least)
    return Estimates(relative, cosine, rows, columns)


def _known(norms: Floats, numbers: Floats) -> Floats:
    """The recorded norms, and those that the sketch estimates where none was recorded."""
    estimated: Floats = np.linalg.norm(numbers[:, :FLAT], axis=1)
    return np.where(np.isnan(norms), estimated, norms)


def _differing(sums: Floats, least: Floats) -> Masks:
    """The slices that hold nearly all of a difference, of (n, SLICES), if they are few."""
    squares = np.where(np.abs(sums) > least[:, None], sums**2, 0.0)
    order = np.argsort(-squares, axis=1)
    ordered = np.take_along_axis(squares, order, 1)
    before = np.cumsum(ordered, 1) - ordered
    is_wanted = (before < _MOST_OF_IT * squares.sum(1, keepdims=True)) & (ordered > 0)
    bits = np.where(is_wanted, np.uint16(1) << order.astype(np.uint16), 0).sum(1)
    counts = is_wanted.sum(1)
    masks: Masks = np.where(counts <= _FEW, bits, 0).astype(np.uint16)
    return masks


def exchanged(ours: Floats, reference: Floats, scale: float) -> dict[int, int]:
    """Which slice of the reference each differing slice of ours, (SLICES,), equals.

    Empty unless all that differ, two at least, are found at other places, each once: they were
    exchanged or shifted. ``scale`` is the norm of the reference.
    """
    near = ROUNDING * scale
    differing = np.flatnonzero(np.abs(ours - reference) > near)
    found: dict[int, int] = {}
    for place in differing:
        gaps = np.abs(reference[differing] - ours[place])
        best = int(np.argmin(gaps))
        if gaps[best] > near or int(differing[best]) in found.values():
            return {}
        found[int(place)] = int(differing[best])
    return found if len(found) > 1 else {}


def slices_of(mask: int) -> list[int]:
    """The slices of a mask, in order."""
    return [place for place in range(SLICES) if mask >> place & 1]
