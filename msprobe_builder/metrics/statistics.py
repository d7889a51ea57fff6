"""Statistics mode: errors of max, min, mean and norm of two tensors.

With n the value of the run under debug and b that of the reference:

    diff = n - b              relative error = |n - b| / |b|   (a fraction, not percent)

Equal values, two NaN or two equal infinities included, have diff and relative error 0.
If only b is 0 the relative error is infinite; if exactly one of the two is NaN or infinite, or
both are infinite with opposite signs, both errors are NaN or infinite. A statistic that either
side did not record has neither. Where one side's mean or norm alone is NaN or infinite although all
elements are finite, and the squares of the largest leave the range of its type, it says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.graph.floating import epsilons, lowest_numbers
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.metrics.pairing import Pairs

Float = NDArray[np.float64]

MEAN = 2


@dataclass(frozen=True)
class StatisticsErrors:
    """Errors of n pairs.

    ``is_open`` marks pairs of which no statistic is known of both sides. ``worst`` is the largest
    relative error of each pair that says something, clipped to 0…1, NaN where there is none.
    """

    is_open: NDArray[np.bool_]
    worst: Float


def compare_statistics(
    npu: ParameterTable, bench: ParameterTable, pairs: Pairs, texts: Texts
) -> StatisticsErrors:
    """Errors of all pairs of tensors."""
    own, other = epsilons(npu.dtype_id, texts), epsilons(bench.dtype_id, texts)
    own_reach, reach_there = (-lowest_numbers(one.dtype_id, texts) for one in (npu, bench))
    is_open, worst = np.empty(len(pairs), dtype=bool), np.empty(len(pairs))
    for first in range(0, len(pairs), _BLOCK):
        block = slice(first, first + _BLOCK)
        left, right = pairs.npu[block], pairs.bench[block]
        n, b = npu.statistics[:, left], bench.statistics[:, right]
        errors = errors_of(npu, bench, pairs, block)
        says_something = ~errors.unknown
        is_open[block] = errors.unknown.all(axis=0)
        epsilon = np.maximum(own[left], other[right])
        both_zero = mean_is_zero(n, npu.numel[left], epsilon)
        both_zero &= mean_is_zero(b, bench.numel[right], epsilon)
        says_something[MEAN] &= ~both_zero
        reach = np.minimum(own_reach[left], reach_there[right])
        says_something &= ~_left_the_range(n, b, bench.numel[right], reach)
        worst[block] = worst_error(errors.relative, says_something)
    return StatisticsErrors(is_open, worst)


_BLOCK = 1 << 16  # pairs at a time: errors take more memory than what they are made of


@dataclass(frozen=True)
class PairErrors:
    """Errors of n pairs, shape (4, n) in the order max, min, mean, norm.

    ``unknown`` marks statistics that one side did not record; their errors are NaN.
    """

    diff: Float
    relative: Float
    unknown: NDArray[np.bool_]


def errors_of(npu: ParameterTable, bench: ParameterTable, pairs: Pairs, block: slice) -> PairErrors:
    """Errors of some of the pairs, made when they are needed: all are as large as both sides."""
    rows, others = pairs.npu[block], pairs.bench[block]
    n, b = npu.statistics[:, rows], bench.statistics[:, others]
    bits = (1 << np.arange(len(n)))[:, None]
    unknown = ((npu.missing[rows] | bench.missing[others]) & bits) != 0
    diff, relative = statistic_errors(n, b)
    diff[unknown] = np.nan
    relative[unknown] = np.nan
    return PairErrors(diff, relative, unknown)


def recorded_on_one_side(
    npu: ParameterTable, bench: ParameterTable, pairs: Pairs
) -> NDArray[np.bool_]:
    """Of each pair, whether a statistic is known of one tensor and not of the other."""
    every = (1 << len(npu.statistics)) - 1
    differs: NDArray[np.bool_] = (npu.missing[pairs.npu] ^ bench.missing[pairs.bench]) & every != 0
    return differs


def statistic_errors(n: Float, b: Float) -> tuple[Float, Float]:
    """diff and relative error, element by element; see the module's text for special values."""
    equal = (n == b) | (np.isnan(n) & np.isnan(b))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        diff = np.where(equal, 0.0, n - b)
        relative = np.where(equal, 0.0, np.abs(diff) / np.abs(b))
    # n finite against b infinite is inf / inf; it is as wrong as infinite against finite.
    relative = np.where(~equal & np.isinf(b), np.inf, relative)
    return diff, relative


def _left_the_range(n: Float, b: Float, numel: Float, reach: Float) -> NDArray[np.bool_]:
    """Means and norms, shape (4, n), of finite elements whose sum is not finite on one side.

    ``reach`` is the largest number of the type, which a recorder may have summed in.
    """
    is_sum = np.arange(len(n))[:, None] >= MEAN
    is_finite = np.isfinite(n[:MEAN]).all(axis=0) & np.isfinite(b[:MEAN]).all(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        largest = np.maximum(np.abs(n[:MEAN]).max(axis=0), np.abs(b[:MEAN]).max(axis=0))
        may_leave = is_finite & (largest**2 * numel > reach)
    return np.asarray(is_sum & may_leave & (np.isfinite(n) != np.isfinite(b)))


def mean_is_zero(statistics: Float, numel: Float, epsilon: Float) -> NDArray[np.bool_]:
    """Whether a mean is zero within rounding: |mean| ≤ ε · norm / √numel.

    norm / √numel is the root mean square of the elements; a mean below its rounding unit is
    made of cancelled rounding errors, so the relative error of two such means is noise.
    """
    mean, norm = statistics[MEAN], statistics[3]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.asarray(np.abs(mean) <= epsilon * norm / np.sqrt(numel), dtype=bool)


def worst_error(relative: Float, says_something: NDArray[np.bool_]) -> Float:
    """Largest relative error per pair in 0…1; NaN errors count as 1."""
    bounded = np.where(np.isnan(relative), 1.0, np.minimum(relative, 1.0))
    worst = np.where(says_something, bounded, -1.0).max(axis=0, initial=-1.0)
    return np.where(worst < 0, np.nan, worst)
