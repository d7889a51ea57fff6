"""How far two tensors are apart, as a fraction of their size, and what rounding alone explains.

Plain relative errors mislead: the mean of a centred tensor is what cancellation left over, so its
relative error is noise. Here each statistic is measured against the size of the elements:

    max, min    |n - b| / max(|max b|, |min b|)
    mean        |n - b| / (norm b / √elements) / w
    norm        |n - b| / norm b / w

Rounding moves single elements at random, so it averages out in mean and norm: it leaves
w = 1/8 + 1/√elements, at most 1, of what it does to an element (an eighth for what does not average
out), and what a fault does to mean and norm counts that much more. The error of a pair is the
largest of those that were recorded on both sides. Where the tensors themselves were compared, it
is the distance ‖n - b‖ / ‖b‖, or the largest error of an element over the largest element, or that
of the norm; where their sketches were, the distance that these tell, or the error of an extreme, or
that of the norm. Of a normalisation the distance alone: it divides by how much a group of elements
varies, so that where one hardly does, rounding makes a whole element of it.

Below the smallest normal number of a type its numbers are equally far apart, so that rounding
moves an element by half of that distance, however small it is: of float16 by 2⁻²⁵, which is all of
it where gradients are that small.

A mask value, such as the lowest number of a type, is left out, and so is what it dominates.
Truth values beside numbers, as masks of two kernels are, are equal or not known: they may say the
same in other numbers.

Where checksums alone were recorded other bits have nothing in common, or are not known, as the
caller says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameter_columns import ALL_MISSING
from msprobe_builder.graph.floating import discrete_types, epsilons, is_boolean, steps
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.metrics.comparison import Comparisons

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

# Nothing is worse than a tensor that has nothing in common with the other.
WORST = 1e3
OTHER_BITS = 1.0  # of tensors of which checksums alone tell that they differ
_FILLER = 1e3
_LOWEST = 9.9e3  # -65504 of float16, or -1e4, which is -9984 in bfloat16
_MAX, _MIN, _MEAN, _NORM = range(4)
BLOCK = 1 << 13  # rows or pairs at a time: what is worked out of them stays near the processor


@dataclass(frozen=True)
class Distances:
    """Of n pairs: the error, what rounding explains of it, and whether one side alone broke.

    ``error`` is NaN where nothing is known. ``rounding`` is the unit of the coarser type, ``cast``
    that of what was cast to the coarsest type inside, unseen. ``broken`` pairs hold NaN or
    infinity on one side only.
    """

    error: Float
    rounding: Float
    cast: Float
    broken: Bool
    informative: Bool  # whether more than one statistic could be compared
    coarsest: float  # unit of the coarsest type among pairs of unequal types, 0 without any
    altered: Bool  # other bits, though the statistics are the same
    by_sum: Bool  # a checksum alone tells
    visible: Float  # where one extreme is a mask value, so that the norm is, the size of the other


def distances(
    npu: ParameterTable,
    bench: ParameterTable,
    comparisons: Comparisons,
    texts: Texts,
    *,
    other_types: bool,
    normalised: Bool,
    other_bits: float,
) -> Distances:
    """Errors of all pairs of tensors, relative to their size.

    ``other_types`` says that it is the habit of these runs that types differ; ``normalised`` are
    the npu rows that normalisations put out; ``other_bits`` is the error of tensors of which
    nothing is known but that their checksums differ.
    """
    pairs = comparisons.pairs
    worst, broken = np.empty(len(pairs)), np.empty(len(pairs), dtype=bool)
    informative, visible = np.empty(len(pairs), dtype=bool), np.empty(len(pairs))
    whole = discrete_types(texts)[npu.dtype_id]
    for first in range(0, len(pairs), BLOCK):
        block = slice(first, first + BLOCK)
        worst[block], broken[block], informative[block], visible[block] = _of_statistics(
            npu, bench, comparisons, block, normalised[pairs.npu[block]], whole[pairs.npu[block]]
        )
    other_kind = is_boolean(npu.dtype_id[pairs.npu], texts) != is_boolean(
        bench.dtype_id[pairs.bench], texts
    )
    unknown = other_kind & (worst > 0)
    worst, broken = np.where(unknown, np.nan, worst), broken & ~unknown
    rounding, cast, coarsest = _rounding(npu, bench, comparisons, texts, other_types=other_types)
    altered, by_sum = (np.zeros(len(pairs), dtype=bool) for _ in range(2))
    if comparisons.md5_equal is not None:
        worst = np.where(comparisons.md5_equal == 1, 0.0, worst)
        same_type = npu.dtype_id[pairs.npu] == bench.dtype_id[pairs.bench]
        differs = (comparisons.md5_equal == 0) & same_type
        nothing = (npu.missing[pairs.npu] | bench.missing[pairs.bench]) == ALL_MISSING
        by_sum = nothing & (comparisons.md5_equal >= 0) & same_type
        altered = differs & ~(worst > rounding) & ~by_sum
        changed = differs & ~(worst > 0) & ~by_sum
        worst = np.where(changed, rounding / 2, worst)  # the bits differ, nothing says how much
        worst = np.where(by_sum & differs, other_bits, worst)
        informative |= by_sum
    return Distances(worst, rounding, cast, broken, informative, coarsest, altered, by_sum, visible)


def _of_statistics(
    npu: ParameterTable,
    bench: ParameterTable,
    comparisons: Comparisons,
    block: slice,
    normalised: Bool,
    whole: Bool,
) -> tuple[Float, Bool, Bool, Float]:
    """Error, whether one side alone broke, whether it tells anything, size beside a mask value."""
    rows, others = comparisons.pairs.npu[block], comparisons.pairs.bench[block]
    n, b = npu.statistics[:, rows], bench.statistics[:, others]
    bits = (1 << np.arange(4))[:, None]
    known = ((npu.missing[rows] | bench.missing[others]) & bits) == 0
    with np.errstate(all="ignore"):
        extreme = np.maximum(np.abs(b[_MAX]), np.abs(b[_MIN]))
        elements = np.fmax(bench.numel[others], 1.0)
        root = b[_NORM] / np.sqrt(elements)
        finite = known & np.isfinite(n) & np.isfinite(b)
        weight = weights(elements)
        unit = np.stack([extreme, extreme, root * weight, b[_NORM] * weight])
        # An infinite mask value leaves the other extreme as the only size there is.
        other = np.where(np.isfinite(b[_MAX]), np.abs(b[_MAX]), np.abs(b[_MIN]))
        unit[:2] = np.where(np.isfinite(extreme), unit[:2], other)
        # Of a type without norm, bool and complex, the extremes are the size.
        unit[_MEAN] = np.where(np.isfinite(unit[_MEAN]), unit[_MEAN], unit[_MAX])
        said = finite.copy()
        mask_value = mask_values(n, b, elements)
        for one, other in ((_MIN, _MAX), (_MAX, _MIN)):
            filled = mask_value[one]
            said[:, filled] = False
            said[other, filled] = np.isfinite(n[other, filled])
            unit[other, filled] = np.abs(b[other, filled])
        difference = np.abs(n - b)
        error = np.where(difference == 0, 0.0, difference / unit)
        # Of one number everywhere mean and norm follow; added up one by one they are less exact.
        constant = (n[_MAX] == n[_MIN]) & (b[_MAX] == b[_MIN])
        error[_MEAN:, constant] = np.where(known[_MEAN:], error[_MAX], np.nan)[:, constant]
        hidden = _is_hidden(n[_MIN]) & _is_hidden(b[_MIN])
    error = np.where(said, np.nan_to_num(error, nan=WORST, posinf=WORST), np.nan)
    counts = np.flatnonzero(whole)
    alike = _added_up_otherwise(n[:, counts], b[:, counts], elements[counts])
    error[_MEAN:, counts[alike]] = 0.0
    equal = (n == b) | (np.isnan(n) & np.isnan(b))
    one_sided = known & ~equal & ~finite
    one_sided[:, hidden & ~(n[_MAX] == np.inf) & ~np.isnan(n[_MAX])] = False
    # A sum may leave the range of its type on one side although no element does.
    broken = one_sided[:2].any(axis=0) | (one_sided & (np.isnan(n) != np.isnan(b))).any(axis=0)
    with np.errstate(all="ignore"):
        worst = np.fmax.reduce(error, axis=0)
    measured = _measured(comparisons, block, error, extreme, normalised)
    measured[mask_value.any(axis=0)] = np.nan  # masked elements tell the mask value's distance
    worst = np.where(np.isnan(measured), worst, np.fmax(measured, error[_NORM]))
    worst = np.where(broken, WORST, np.minimum(worst, WORST))
    informative = (np.isfinite(error).sum(axis=0) > 1) & (b[_MAX] != b[_MIN])
    return worst, broken, informative, visible_size(b, mask_value)


def _added_up_otherwise(n: Float, b: Float, elements: Float) -> Bool:
    """Which whole numbers differ by no more than mean and norm that were added up in another order.

    ``n`` and ``b`` are max, min, mean and norm of k pairs. Another device adds up in another order,
    and so does a merge; some recorders do so in float32, as what they recorded shows.
    """
    with np.errstate(all="ignore"):
        single = (n == n.astype(np.float32)) | (b == b.astype(np.float32))
        size = np.stack([b[_NORM] / np.sqrt(np.fmax(elements, 1.0)), b[_NORM]])
        apart = np.abs(n - b)[_MEAN:] / size
        near = apart <= np.where(single[_MEAN:], _SUMS * _SINGLE, _REORDERED)
    same = (n == b)[:_MEAN].all(axis=0)
    return np.asarray(same & ((n == b)[_MEAN:] | near).all(axis=0))


_REORDERED = 2.0**-40  # of sums in float64


def weights(elements: Float) -> Float:
    """What is left in mean and norm of what rounding does to one of so many elements."""
    return np.asarray(np.minimum(1.0, 0.125 + 1.0 / np.sqrt(elements)))


def _is_hidden(low: Float) -> Bool:
    """Whether a minimum only hides what a mask covers: -inf, or the lowest number of a type."""
    return np.asarray(low <= -_LOWEST, dtype=bool)


def mask_values(n: Float, b: Float, elements: Float) -> Bool:
    """Which of max and min, of shape (2, k), are constants far beyond the other one.

    ``n`` and ``b`` are max, min, mean and norm of k pairs. Only the other extreme tells anything
    then: norm and mean are made of the mask value, which differs from type to type. What is nowhere
    below 0, such as squares, has a maximum as far beyond its minimum: that is no mask value.
    """
    found = np.zeros((2, n.shape[1]), dtype=bool)
    with np.errstate(all="ignore"):
        for mask_value, other in ((_MIN, _MAX), (_MAX, _MIN)):
            far, far_there = (
                (np.abs(one[mask_value]) > _FILLER * np.abs(one[other]))
                & (np.abs(one[mask_value]) >= _FILLER)
                for one in (n, b)
            )
            alike = np.abs(n[mask_value] - b[mask_value]) <= np.abs(b[mask_value]) / 64
            # Each side may fill with a number of its own.
            own = (far | far_there) & _is_hidden(n[mask_value]) & _is_hidden(b[mask_value])
            found[mask_value] = (far_there & alike) | own
    maxima = np.flatnonzero(found[_MAX])
    for one in (n, b) if len(maxima) else ():
        found[_MAX, maxima] &= _is_one_number(one[:, maxima], elements[maxima])
    return found


def _is_one_number(statistics: Float, elements: Float) -> Bool:
    """Whether all that is large is the maximum again and again: (norm / max)² times, in the sum."""
    largest, smallest = np.abs(statistics[:2])
    with np.errstate(all="ignore"):
        times = (statistics[_NORM] / largest) ** 2
        off = np.abs(statistics[_MEAN] * elements / largest - times)
        return np.asarray(~(off > times / 16 + elements * smallest / largest))


def visible_size(statistics: Float, mask_value: Bool) -> Float:
    """The size of what a mask leaves to be seen, NaN of tensors without a mask value."""
    extreme = np.abs(np.where(mask_value[_MIN], statistics[_MAX], statistics[_MIN]))
    return np.where(mask_value.any(axis=0), extreme, np.nan)


def _measured(
    comparisons: Comparisons, block: slice, error: Float, extreme: Float, normalised: Bool
) -> Float:
    """Error from the elements themselves or their sketches, NaN where neither was compared.

    ``error`` is that of the statistics.
    """
    result = np.full(len(extreme), np.nan)
    if "relative_difference" not in comparisons.metrics:
        return result
    relative = comparisons.metrics["relative_difference"]
    told, distance = relative.known[block], relative.value[block]
    with np.errstate(all="ignore"):
        if "max_abs_err" in comparisons.metrics:
            largest = comparisons.metrics["max_abs_err"].value[block]
            of_elements = np.where(largest == 0, 0.0, largest / extreme)
        else:  # what sketches tell of a single element, extremes tell better
            of_elements = np.fmax(error[_MAX], error[_MIN])
        return np.where(
            told, np.where(normalised, distance, np.fmax(distance, of_elements)), result
        )


def _rounding(
    npu: ParameterTable,
    bench: ParameterTable,
    comparisons: Comparisons,
    texts: Texts,
    *,
    other_types: bool,
) -> tuple[Float, Float, float]:
    """What one rounding does to an element, and sums in another order: of the coarser type.

    The same of the coarsest type among pairs of unequal types, and its unit.

    A pair of which the run under debug is coarser counts as the finer one unless such pairs are the
    run's habit: a single call in another precision is a fault, a run in another precision is none.
    """
    pairs = comparisons.pairs
    left = epsilons(npu.dtype_id, texts)[pairs.npu]
    right = epsilons(bench.dtype_id, texts)[pairs.bench]
    coarse, fine = np.maximum(left, right), np.minimum(left, right)
    if np.count_nonzero(fine < _SINGLE) < len(pairs) / 2:
        # In a run in single precision accelerators compute in it what is to be in double.
        coarse, fine = np.fmax(coarse, _SINGLE), np.fmax(fine, _SINGLE)
    # What the reference alone rounded in a coarser type is nothing that this run did wrong.
    unit = coarse if other_types else np.where(left < right, coarse, fine)
    # Half precision is rounded once at the end; what is summed in float32 is rounded at every step,
    # the statistics of a float32 tensor beside those of one in float64 as well.
    rounding = np.maximum(unit, _SUMS * np.minimum(unit, _SINGLE))
    coarsest = float(coarse[coarse != fine].max(initial=0.0))
    size = _largest_size(npu, bench, comparisons)
    rounding = np.fmax(rounding, below_normal(unit, size))
    cast = np.fmax(coarsest, below_normal(np.full(len(pairs), coarsest), size))
    return rounding, cast, coarsest


def below_normal(unit: Float, size: Float) -> Float:
    """What rounding does below the smallest normal number, as a fraction of the root mean square.

    ``unit`` tells the type. All of it where the elements are smaller than what rounding does.
    """
    with np.errstate(all="ignore"):
        moved = steps(unit) / 2
        return np.where((moved > 0) & (size <= moved), WORST, np.where(moved > 0, moved / size, 0))


def _largest_size(npu: ParameterTable, bench: ParameterTable, comparisons: Comparisons) -> Float:
    """The root mean square of the side where it is larger: the other may have been rounded to 0."""
    pairs = comparisons.pairs
    with np.errstate(all="ignore"):
        left = npu.statistics[_NORM][pairs.npu] / np.sqrt(npu.numel[pairs.npu])
        right = bench.statistics[_NORM][pairs.bench] / np.sqrt(bench.numel[pairs.bench])
    return np.asarray(np.fmax(left, right))


def is_other_precision(
    npu: ParameterTable, bench: ParameterTable, comparisons: Comparisons, telling: Sequence[Bool]
) -> bool:
    """Whether it is the habit of these two runs that types differ.

    ``telling`` are npu rows of which most are enough: products, which mixed precision casts and
    little else, and weights, as much of a model in half precision may be computed in single.
    """
    pairs = comparisons.pairs
    differs = npu.dtype_id[pairs.npu] != bench.dtype_id[pairs.bench]
    if not len(pairs):
        return False
    kinds = [differs[one[pairs.npu]] for one in telling]
    most = any(len(one) >= _SEVERAL and float(one.mean()) >= _MOST for one in kinds)
    return most or float(differs.mean()) > _HABIT


_MOST, _SEVERAL = 0.5, 4
_HABIT = 0.2
_SUMS = 8.0
_SINGLE = 2.0**-23
