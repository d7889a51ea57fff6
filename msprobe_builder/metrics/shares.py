"""Which rank's part of a weight is not what the reference has there.

A pipeline stage of one rank has its weights whole. Of real data every other rank's part is compared
with its place in the reference. Of statistics only the whole is known: when one rank's part, times
some number, makes all four statistics of the whole those of the reference, it is that rank's. A
part whose elements are in another order has the same statistics, so statistics cannot tell of it.
NaN and infinity are of the ranks whose parts have them.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from itertools import accumulate
from math import isclose, isfinite, sqrt

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import Disagreement
from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.graph.assembly import Assembly, joined_shape
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.provenance import Apart, Provenance, Shares
from msprobe_builder.graph.side import Side
from msprobe_builder.metrics.joined import open_part, open_row, whole
from msprobe_builder.metrics.replicas import rank_of, statistics_of
from msprobe_builder.metrics.tensor_file import TensorFileError

Float = NDArray[np.float64]
_TOLERANCE = 1e-4  # of the whole; weights of equal runs differ by nothing but rounding
_FITS = 1e-5


def with_faulty_shares(
    side: Side,
    other: Side,
    partner: Mapping[int, int],
    differing: Set[int],
    *,
    is_reference: bool = False,
) -> Side:
    """The side with the ranks whose part of a weight differs from the other side's weight.

    Runs that began with other weights differ in most of them, which is no fault of a rank.
    ``partner`` is the row of the other side of each compared row, ``differing`` are the rows whose
    elements were compared and differ. A rank with whole weights is only accused of the run under
    debug.
    """
    provenance = side.provenance
    if provenance is None:
        return side
    weights = [
        row
        for row in partner
        if side.table.section[row] == Section.PARAMETERS and row not in provenance.apart
    ]
    off = [
        row
        for row in weights
        if row in differing or _is_off(side.table, row, other.table, partner[row])
    ]
    if len(off) * 2 > len(weights):
        return side
    found = {}
    for row in off:
        if row not in provenance.shares and is_reference:
            continue
        if row not in provenance.shares:
            ranks = _ranks(provenance, int(side.table.node[row]))
            several = _alone(side.table, row, ranks, other.table, partner[row])
        elif row in provenance.assemblies:
            several = _by_elements(side, row, other, partner[row])
        else:
            reference = other.table.statistics[:, partner[row]]
            several = _by_statistics(provenance.shares[row], reference)
        if several:
            found[row] = several
    if not found:
        return side
    return replace(side, provenance=_with(provenance, found))


def _ranks(provenance: Provenance, node: int) -> tuple[int, ...]:
    return provenance.origins[node] if provenance.origins else ()


def _alone(
    table: ParameterTable, row: int, ranks: tuple[int, ...], other: ParameterTable, partner: int
) -> tuple[Apart, ...]:
    """The rank that has a whole weight to itself, as those of a pipeline without other splits."""
    if len(ranks) != 1 or table.numel[row] != other.numel[partner]:
        return ()
    own, reference = table.statistics[:, row], other.statistics[:, partner]
    if not np.isfinite(reference).all():
        return ()
    if not np.isfinite(own).all():
        return (_apart(ranks[0], own, 1.0, None),)
    size = np.abs(reference).max()
    difference = float(np.abs(own - reference).max() / size) if size > 0 else 1.0
    factor = own[3] / reference[3] if reference[3] > 0 else 1.0
    is_scaled = np.allclose(own, factor * reference, rtol=_FITS, atol=_FITS * size)
    is_other = is_scaled and not isclose(factor, 1.0, rel_tol=_FITS)
    note = fact("apart.scaled", times=float(factor)) if is_other else None
    return (_apart(ranks[0], own, difference, note),)


def _with(provenance: Provenance, found: dict[int, tuple[Apart, ...]]) -> Provenance:
    return replace(provenance, apart={**provenance.apart, **found})


def _is_off(table: ParameterTable, row: int, other: ParameterTable, partner: int) -> bool:
    own, reference = table.statistics[:, row], other.statistics[:, partner]
    if table.missing[row] or not np.isfinite(reference).all():
        return False
    if not np.isfinite(own).all():
        return True
    size = np.abs(reference).max()
    return bool((np.abs(own - reference) > _TOLERANCE * size).any())


def _by_statistics(shares: Shares, reference: Float) -> tuple[Apart, ...]:
    """The one rank whose part, divided by a number, makes the whole that of the reference."""
    broken = np.flatnonzero(~np.isfinite(shares.statistics).all(axis=1)).tolist()
    if broken:
        return tuple(_apart(shares.ranks[one], shares.statistics[one], 1.0, None) for one in broken)
    found = faulty_share(shares, reference)
    if found is None:
        return ()
    place, factor = found
    own, note = shares.statistics[place], fact("apart.scaled", times=factor)
    return (_apart(shares.ranks[place], own, abs(1 - 1 / factor), note),)


def faulty_share(shares: Shares, reference: Float) -> tuple[int, float] | None:
    """The place of the one part that, divided by a number, makes the whole the reference."""
    factors = [(place, _factor(shares, place, reference)) for place in range(len(shares.ranks))]
    fitting = [(place, factor) for place, factor in factors if factor is not None]
    return fitting[0] if len(fitting) == 1 else None


def _factor(shares: Shares, place: int, reference: Float) -> float | None:
    """How many times too large a rank's part is, if that explains the whole."""
    parts, elements = shares.statistics, shares.elements
    rest = float(np.square(np.delete(parts[:, 3], place)).sum())
    left = float(reference[3]) ** 2 - rest
    own = float(parts[place, 3])
    if not (isfinite(left) and left > 0 and own > 0):
        return None
    factor = own / sqrt(left)
    scaled = parts.copy()
    scaled[place] /= factor
    weight = elements / elements.sum()
    expected = (
        scaled[:, 0].max(),
        scaled[:, 1].min(),
        float((scaled[:, 2] * weight).sum()),
    )
    size = float(np.abs(reference[:2]).max())
    is_same = all(
        isclose(one, two, rel_tol=_FITS, abs_tol=_FITS * size)
        for one, two in zip(expected, reference[:3].tolist(), strict=True)
    )
    return factor if is_same else None


def _by_elements(side: Side, row: int, other: Side, partner: int) -> tuple[Apart, ...]:
    """The ranks whose part differs from its place in the reference, element by element.

    Nobody where the reference has another shape, as a vocabulary that is filled up for the ranks.
    """
    assert side.provenance is not None
    assembly = side.provenance.assemblies[row]
    if assembly.dimension is None or assembly.outer > 1 or len(assembly.orders) > 1:
        return ()
    try:
        [reference] = open_row(other, partner)
        content = np.asarray(whole(reference), dtype=np.float64)
        parts = [np.asarray(whole(open_part(one)), dtype=np.float64) for one in assembly.parts]
    except (TensorFileError, RuntimeError, MemoryError, OSError, ValueError, TypeError):
        return ()
    if joined_shape([part.shape for part in parts], assembly) != list(content.shape):
        return ()
    found = []
    for place, expected in enumerate(_places(assembly, parts, content)):
        own = parts[place]
        norm = float(np.sqrt(np.square(expected).sum()))
        distance = float(np.sqrt(np.square(own - expected).sum()))
        if norm and distance > _TOLERANCE * norm:
            is_moved = np.allclose(np.sort(own, axis=None), np.sort(expected, axis=None), _FITS)
            note = fact("apart.reordered") if is_moved else None
            rank = rank_of(assembly.parts[place])
            statistics = np.array(statistics_of(own.reshape(-1)))
            found.append(_apart(rank, statistics, min(distance / norm, 1.0), note))
    return tuple(found)


def _places(assembly: Assembly, parts: list[Float], content: Float) -> list[Float]:
    """What of the reference stands where each part belongs."""
    axis = assembly.dimension
    assert axis is not None
    order = assembly.orders[0]
    bounds = [0, *accumulate(order.blocks)]
    pieces: dict[int, dict[int, Float]] = {part: {} for part in range(len(parts))}
    begin = 0
    for part, block in order.sequence(len(parts)):
        unit = parts[part].shape[axis] // bounds[-1]
        size = (bounds[block + 1] - bounds[block]) * unit
        pieces[part][block] = np.take(content, range(begin, begin + size), axis=axis)
        begin += size
    return [
        np.concatenate([own[block] for block in sorted(own)], axis=axis) for own in pieces.values()
    ]


def _apart(rank: int, statistics: Float, difference: float, note: Fact | None) -> Apart:
    own = float(statistics[0]), float(statistics[1]), float(statistics[2]), float(statistics[3])
    return Apart(rank, Disagreement.SHARE, None, own, min(difference, 1.0), rank, note=note)
