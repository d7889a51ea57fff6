"""What was recorded of a pair of tensors, as observations of one unknown: how far elements differ.

Of elements that differ by ``e`` of their root mean square, as rounding makes them differ, each
number that was recorded moves by an amount of its own: extremes by about e, the mean by e/√n, the
norm by e/√n and by e²/2 (what is added to something in no direction in particular lengthens it).
So each number is a reading of e with an error bar, and :func:`surprise` says how many of these the
furthest one lies outside.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.floating import SINGLE
from msprobe_builder.metrics.comparison import Comparisons
from msprobe_builder.operators.operator import Kind
from msprobe_builder.verdict.model.given import hold_most_bits, is_given
from msprobe_builder.verdict.model.masked import MASK_FROM, masked_otherwise, masked_rows
from msprobe_builder.verdict.model.runs import Runs
from msprobe_builder.verdict.model.sizes import sizes

Int = NDArray[np.int64]
Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

_MAX, _MIN, _MEAN, _NORM = range(4)
_BITS = np.array([[1], [2], [4], [8]], dtype=np.int8)  # of what is missing
READ = frozenset(("relative_difference", "euclidean_distance"))  # of what was measured
WORST = 10.0  # as far off as one can be: finite here, not there
_MOST_SHOWN = 1000.0  # nothing is told to be off by more
_TINY = 1e-300  # nothing is a share of nothing
# Rounding is not quite without direction: a share of it moves mean and norm.
COMMON = 0.12
ROUNDED = 0.6  # of a rounding unit, what one operation loses
_HARDLY = 0.03  # what elements vary by of their size
# What a recorder's own sums lose: in float32, more of more elements.
SUMMED, _SUMMED_PER_ELEMENT = 2e-7, 2e-13
_CLEARLY = 4.0
_HALF_NORM = 0.3  # of a unit of half precision, where a recorder takes the norm in it
# From which expected difference on two tensors have nothing in common, and anything may be seen.
_UNRELATED = 0.5
_TELLING, _NEARLY, _THREE = 0.1, 0.5, 3  # of numbers that are multiples of others
SEVERAL, _SOME = 16, 8  # elements, tensors
_HALF = 0.5  # of one
# Of what tensors usually hold, what rounding may leave of nothing; of few digits it leaves more.
_REMAINS, _REMAINING_UNITS = 1e-3, 8.0
_MOST_READ, _MOST_OF_READ = 20 * SINGLE, 0.9  # what sums of any order may differ by
_AT_ONCE = 1 << 14  # rows: each takes half a kilobyte meanwhile, which the system has to clear
EXACT_OF_FEW = 1.5  # e that was measured, in units of e that was expected
# The same of many elements, of which rounding leaves one in a thousand off by 2.4 units.
EXACT_OF_MANY, SHARPER = 1.6, 3.0


@dataclass(frozen=True)
class Observations:
    """Columns by npu row; NaN where nothing is known.

    ``size`` is the best reading of e, and ``shown`` what is told of it: by how much of the largest
    element, the mean and the norm have moved. ``moved`` of shape (4, n) are the readings of
    maximum, minimum, mean and norm, ``exact`` is e itself where elements were compared. ``rms``,
    ``norm``, ``mean``, ``peak`` and ``smallest`` (of absolute values; 0 where signs differ) are the
    reference's.
    """

    size: Float
    shown: Float
    moved: Float
    exact: Float
    rms: Float
    norm: Float
    mean: Float
    peak: Float
    smallest: Float
    elements: Float
    resolution: Float
    remains: Bool  # next to nothing here, and nothing there
    differs: Bool  # by more than the recorder's sums explain
    is_factor: Bool  # all numbers are the same multiple of the reference's


def observe(runs: Runs, comparisons: Comparisons) -> Observations:
    """The readings of all pairs."""
    table, bench = runs.npu.table, runs.bench.table
    size = len(table)
    rows = np.flatnonzero((runs.other >= 0) & table.is_tensor)
    other = runs.other[rows]
    # Tensors of other sizes are other tensors: nothing is read of them.
    rows, other = rows[alike := table.numel[rows] == bench.numel[other]], other[alike]
    norms = table.statistics[_NORM, rows], bench.statistics[_NORM, other]
    elements = np.fmax(table.numel, 1.0)
    unknown = [np.full(size, np.nan) for _ in range(8)]
    result = Observations(
        size=unknown[0],
        shown=unknown[7],
        moved=np.full((4, size), np.nan),
        exact=unknown[1],
        rms=unknown[2],
        norm=unknown[3],
        mean=unknown[4],
        peak=unknown[5],
        smallest=unknown[6],
        elements=elements,
        resolution=_resolution(runs, elements, rows, *norms),
        remains=np.zeros(size, dtype=bool),
        differs=np.zeros(size, dtype=bool),
        is_factor=np.zeros(size, dtype=bool),
    )
    something, outside = _is_something(runs, rows, *norms), _is_from_outside(runs, rows)
    one = np.zeros((2, size))
    for begin in range(0, len(rows), _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE)
        _read(result, one, runs, rows[part], other[part], something[part], outside[part])
    _describe_alone(result, runs)
    result.resolution[:] = np.fmax(result.resolution, _read_otherwise(runs, result, rows, one))
    _shown_by_casts(result, runs)
    _measured(result, runs, comparisons)
    least = np.fmax(_CLEARLY * result.resolution, one)
    result.differs[:] = (result.moved[:_MEAN] > 0).any(axis=0)
    result.differs[:] |= (result.moved[_MEAN:] > least).any(axis=0)
    result.differs[result.exact > 0] = True
    # What sums of whole numbers differ by that are the same is their recorder's.
    same = runs.discrete & ~result.differs & (result.size > 0)
    # What one side reads, and is about the same, has been written to in the meantime.
    hollow = runs.meaningless_on_both | (runs.meaningless & ~(result.size < _UNRELATED))
    _read_nothing(result, (hollow & (runs.other >= 0)) | same)
    return result


def _read(
    result: Observations,
    one: Float,
    runs: Runs,
    rows: Int,
    other: Int,
    is_something: Bool,
    is_from_outside: Bool,
) -> None:
    """Fill in what was recorded of some rows, and what whole numbers move by at least."""
    table, bench = runs.npu.table, runs.bench.table
    debug, reference = table.statistics.take(rows, axis=1), bench.statistics.take(other, axis=1)
    absent = table.missing[rows] | bench.missing[other]
    known = (absent & _BITS) == 0
    elements = result.elements[rows]
    with np.errstate(all="ignore"):
        highest, lowest = np.abs(reference[:_MEAN])
        hides = masked_rows(debug), masked_rows(reference)
        masked = hides[0] | hides[1]
        rms, peak, smallest = sizes(reference, elements, masked)
        unit = np.stack([np.fmax(rms, highest), np.fmax(rms, lowest), rms, reference[_NORM]])
        one_sign = reference[_MAX] * reference[_MIN] > 0
        # Of what no call has made each element is rounded for itself, the smallest one as well.
        for_itself = one_sign & is_from_outside
        unit[:_MEAN, for_itself] = np.abs(reference[:_MEAN, for_itself])
        apart = np.abs(debug - reference)
        endless = np.flatnonzero(np.isnan(apart).any(axis=0))
        both = debug[:, endless], reference[:, endless]
        alike = (both[0] == both[1]) | (np.isnan(both[0]) & np.isnan(both[1]))
        apart[:, endless] = np.where(alike, 0.0, apart[:, endless])
        moved = np.where(apart == 0, 0.0, apart / unit)
        told = np.stack([peak, peak, np.fmax(rms, _TINY), np.fmax(reference[_NORM], _TINY)])
        shown = np.fmax.reduce(np.where(known, apart / told, np.nan), axis=0)
    moved[_MIN:, masked] = masked_otherwise(
        debug[:, masked], reference[:, masked], *(one[masked] for one in hides)
    )
    moved = np.where(np.isfinite(moved) & known, moved, np.nan)
    moved[:, is_something] = WORST
    broken = known & (np.isfinite(debug) != np.isfinite(reference))
    broken &= ~((debug < MASK_FROM) & (reference < MASK_FROM))
    moved[:, broken[:_MEAN].any(axis=0)] = WORST
    moved = np.minimum(moved, WORST)
    several = elements >= SEVERAL  # of a single one all numbers are the same
    several &= (debug != reference).sum(axis=0, dtype=np.uint8) >= _THREE
    some = np.flatnonzero(several)
    result.is_factor[rows[some]] = _are_multiples(
        debug.take(some, axis=1), reference.take(some, axis=1), rms[some]
    )
    for column, values in (
        (result.rms, rms),
        (result.norm, reference[_NORM]),
        (result.mean, reference[_MEAN]),
        (result.peak, peak),
        (result.smallest, smallest),
    ):
        column[rows] = values
    # What stands beside nothing is off by all of it, which is next to nothing.
    left = (reference[_NORM] == 0) & (debug[_NORM] > 0) & np.isnan(moved).any(axis=0)
    left &= ~runs.discrete[rows]
    result.remains[rows] = left
    usual = debug[_NORM] / np.sqrt(elements)
    for column, values in ((result.rms, usual), (result.norm, debug[_NORM]), (result.peak, usual)):
        column[rows[left]] = values[left]
    result.moved[:, rows] = moved
    result.size[rows] = size = np.fmax.reduce(moved, axis=0)
    is_plain = np.isfinite(shown) & ~masked & ~broken[:_MEAN].any(axis=0)
    shown = np.where(is_plain, shown, size)
    result.shown[rows] = np.where(size > 0, np.minimum(shown, _MOST_SHOWN), 0.0)
    whole = np.flatnonzero(runs.discrete[rows])
    one[:, rows[whole]] = _one_more(elements[whole], reference[:, whole], unit[:, whole])


def _describe_alone(result: Observations, runs: Runs) -> None:
    """Fill in how large tensors are that have no counterpart: errors pass through these, too."""
    table = runs.npu.table
    rows = np.flatnonzero(((runs.partner[table.node] < 0) | runs.summed) & table.is_tensor)
    numbers = table.statistics[:, rows]
    found = sizes(numbers, result.elements[rows], masked_rows(numbers))
    result.rms[rows], result.peak[rows], result.smallest[rows] = found
    result.norm[rows], result.mean[rows] = numbers[_NORM], numbers[_MEAN]


def _shown_by_casts(result: Observations, runs: Runs) -> None:
    """Read truth values, of which nobody sums, where they are cast to numbers."""
    table, calls = runs.npu.table, runs.npu.calls
    casts = calls.are(lambda one: one.kind is Kind.CAST) & calls.is_forward_call
    first = {
        section: np.flatnonzero(
            casts[table.node] & (table.section == section) & (table.position == 0) & table.is_tensor
        )
        for section in (Section.INPUT, Section.OUTPUT)
    }
    _, given, put_out = np.intersect1d(
        table.node[first[Section.INPUT]], table.node[first[Section.OUTPUT]], return_indices=True
    )
    given, put_out = first[Section.INPUT][given], first[Section.OUTPUT][put_out]
    silent = runs.discrete[given] & np.isnan(result.moved[_MEAN:, given]).all(axis=0)
    made, there = runs.maker[given], runs.bench_maker[runs.other[given]]
    for rows, alike in ((given, silent), (made, silent & (runs.other[made] == there))):
        told = alike & (rows >= 0) & (runs.other[rows] >= 0)
        result.moved[_MEAN:, rows[told]] = result.moved[_MEAN:, put_out[told]]
        result.size[rows[told]] = np.fmax.reduce(result.moved[:, rows[told]], axis=0)


def _read_nothing(result: Observations, rows: Bool) -> None:
    """Take rows, such as memory that was not written to or is not read, for equal."""
    result.size[rows], result.shown[rows], result.moved[:, rows] = 0.0, 0.0, 0.0
    result.exact[rows] = np.nan
    result.differs[rows] = result.is_factor[rows] = False


def _is_something(runs: Runs, rows: Int, norms: Float, reference: Float) -> Bool:
    """Where the reference has zeros alone, and this run what is no remainder of rounding."""
    usual = norms / np.sqrt(np.fmax(runs.npu.table.numel[rows], 1.0))
    some = ~runs.discrete[rows] & np.isfinite(usual) & (usual > 0)
    back = runs.backward[runs.npu.table.node[rows]]
    least = np.fmax(_REMAINS, _REMAINING_UNITS * runs.coarse[rows])
    result = np.zeros(len(rows), dtype=bool)
    for here in (some & ~back, some & back):
        if (here & (reference == 0)).any():
            result |= here & (usual > least * np.median(usual[here]))
    return np.asarray(result & (reference == 0))


def _one_more(elements: Float, reference: Float, unit: Float) -> Float:
    """What mean and norm of whole numbers move by at least where these differ; half of it.

    Their sum, and that of their squares, are whole numbers as well.
    """
    with np.errstate(all="ignore"):
        mean = _HALF / elements / unit[_MEAN]
        norm = np.sqrt(1 + _HALF / reference[_NORM] ** 2) - 1
    return np.asarray(np.nan_to_num(np.stack([mean, norm]), posinf=0.0))


def _read_otherwise(runs: Runs, seen: Observations, rows: Int, one: Float) -> float:
    """What the sums of the two recorders differ by, read of weights and data with equal extremes.

    Which order a sum is taken in depends on the device; that is no difference of what it is of.
    Nor is what whole numbers differ by that is less than ``one`` of them makes.
    """
    same = (runs.maker[rows] < 0) & is_given(runs, rows)
    moved = seen.moved.take(rows, axis=1)
    same |= (moved[_MEAN:] < one.take(rows, axis=1)).all(axis=0)
    same &= (seen.elements[rows] >= SEVERAL) & (moved[:_MEAN] == 0).all(axis=0)
    found = np.fmax(*np.nan_to_num(moved[_MEAN:].compress(same, axis=1)))
    if len(found) < _SOME:
        return 0.0
    return min(float(np.quantile(found, _MOST_OF_READ)), _MOST_READ)


def _is_from_outside(runs: Runs, rows: Int) -> Bool:
    """What no call has made, but for what may be averages: means are off by what they are of is.

    These a normalisation is given, and nobody trains them.
    """
    normalises = runs.npu.calls.are(lambda one: one.kind is Kind.NORMALISE)
    table = runs.npu.table
    may_be_averages = normalises[table.node[rows]] & (table.requires_grad[rows] == 0)
    return np.asarray((runs.maker[rows] < 0) & is_given(runs, rows) & ~may_be_averages)


def _are_multiples(debug: Float, reference: Float, rms: Float) -> Bool:
    """Where all of at least three numbers have grown, or shrunk, by nearly the same share."""
    with np.errstate(all="ignore"):
        share = np.where(np.abs(reference) > _TELLING * rms, debug / reference - 1, np.nan)
        share[_NORM] = debug[_NORM] / reference[_NORM] - 1
        least, most = np.fmin.reduce(share, axis=0), np.fmax.reduce(share, axis=0)
        near = (most - least) < _NEARLY * np.fmin(np.abs(least), np.abs(most))
    return np.asarray(near & (least * most > 0) & (np.isfinite(share).sum(axis=0) >= _THREE))


def _resolution(runs: Runs, elements: Float, rows: Int, norms: Float, reference: Float) -> Float:
    """What mean and norm may be off by their recorder's sums alone, as a fraction."""
    result = SUMMED + _SUMMED_PER_ELEMENT * elements
    half = runs.coarse[rows] > SINGLE
    if any(_are_half(one[half]) for one in (norms, reference)):
        result[rows[half]] = _HALF_NORM * runs.coarse[rows[half]]
    return np.asarray(result)


def _are_half(norms: Float) -> bool:
    """Whether a recorder has taken norms in half precision: all have few digits."""
    some = norms[np.isfinite(norms) & (norms > 0)].astype(np.float32)
    return len(some) > 3 and float(((some.view(np.uint32) & 0xFFFF) == 0).mean()) > 0.9


def _measured(result: Observations, runs: Runs, comparisons: Comparisons) -> None:
    """Fill in what was measured element by element, or by checksums."""
    pairs = comparisons.pairs
    if comparisons.md5_equal is not None:
        equal = pairs.npu[comparisons.md5_equal == 1]
        result.size[equal], result.moved[:, equal], result.exact[equal] = 0.0, 0.0, 0.0
        other = pairs.npu[comparisons.md5_equal == 0]
        other = other[runs.other[other] >= 0]
        # What a call has rounded otherwise may have equal extremes by chance, its sums not.
        level = np.where(runs.maker[other] < 0, result.resolution[other], 0.0)
        alike = (result.moved[:_MEAN, other] == 0).all(axis=0)
        alike &= (result.moved[_MEAN:, other] <= level).all(axis=0)
        elsewhere = alike & hold_most_bits(runs, comparisons)
        other = other[runs.by_sum[other] | elsewhere]
        result.size[other] = result.exact[other] = 1.0  # nobody knows by how much
    if not READ & comparisons.metrics.keys():
        return  # columns of all rows that nobody would read
    # Beside mask values all else is next to nothing.
    sides = (runs.npu, pairs.npu), (runs.bench, pairs.bench)
    masked = (masked_rows(part.table.statistics)[rows] for part, rows in sides)
    visible = ~np.logical_or(*masked)
    sketched = comparisons.metrics.get("relative_difference")
    if sketched is not None:
        told = sketched.known & np.isfinite(sketched.value) & visible
        relative = np.minimum(sketched.value, WORST)
        for column in (result.size, result.exact, result.shown):
            column[pairs.npu[told]] = relative[told]
    distance = comparisons.metrics.get("euclidean_distance")
    if distance is not None:
        norm = runs.bench.table.statistics[_NORM][pairs.bench]
        with np.errstate(all="ignore"):
            relative = np.where(distance.value == 0, 0.0, distance.value / norm)
        told = distance.known & np.isfinite(relative) & visible
        for column in (result.size, result.exact, result.shown):
            column[pairs.npu[told]] = relative[told]


def _sorted(four: Float) -> Float:
    """The numbers of each column from the least to the most, in place, as a network sorts them."""
    for one, other in ((0, 1), (2, 3), (0, 2), (1, 3), (1, 2)):
        least = np.minimum(four[one], four[other])
        np.maximum(four[one], four[other], out=four[other])
        four[one] = least
    return four


def surprise(seen: Observations, rows: Int, expected: Float, carried: Float | float = 0.0) -> Float:
    """How many times further off rows are than ``expected`` makes them; 0 where nothing is known.

    ``carried`` is what mean and norm owe to those of what they were made of.
    """
    e = np.fmax(expected, 1e-12)
    coarse = np.fmax(seen.resolution[rows], carried)
    with np.errstate(all="ignore"):
        varies = np.sqrt(np.fmax(0.0, 1 - (seen.mean[rows] / seen.rms[rows]) ** 2))
    # Elements that are all alike are rounded alike.
    common = np.where(varies < _HARDLY, 1.0, COMMON)
    spread = e * (common + 1 / np.sqrt(seen.elements[rows])) + coarse
    bars = np.stack([e + SUMMED, e + SUMMED, spread, spread + np.minimum(1.0, e * e) / 2])
    with np.errstate(invalid="ignore"):
        times = _sorted(np.nan_to_num(seen.moved.take(rows, axis=1) / bars, nan=0.0))
        exact = seen.exact[rows] / (EXACT_OF_FEW * e + SUMMED)
        many = np.flatnonzero((seen.elements[rows] >= SEVERAL) & (exact > 1))
        sharp = seen.exact[rows[many]] / (EXACT_OF_MANY * e[many] + SUMMED)
        exact[many] = sharp**SHARPER
    # One number alone may be off by much: a single element, or few that are worse than the others.
    several = np.sqrt(times[-1] * np.fmax(times[-2], 1.0))
    # Rounding moves each by chance; that all move alike counts for each.
    together = np.sqrt((times**2).sum(axis=0))
    several = np.where(seen.is_factor[rows], np.fmax(several, together), several)
    found = np.nan_to_num(np.fmax(exact, several), nan=0.0)
    return np.asarray(np.where(e < _UNRELATED, found, np.fmin(found, 1.0)))
