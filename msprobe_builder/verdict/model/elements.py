"""What single elements of a tensor are off by, of which its numbers tell little."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.graph.floating import SINGLE
from msprobe_builder.verdict.model.observations import COMMON, ROUNDED, Observations
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]
Float = NDArray[np.float64]

STEEPEST = 1e4


def of_few(runs: Runs, seen: Observations, rows: Int) -> Float:
    """What mean and norm say of elements of rows that are off where extremes are the same.

    In half precision most elements are the same to the last bit, and some are a unit off.
    """
    spread = COMMON + 1 / np.sqrt(seen.elements[rows])
    with np.errstate(all="ignore"):
        told = np.nan_to_num(np.fmax(*seen.moved[2:, rows]) / spread)
    most = ROUNDED * np.fmax(runs.coarse[rows], runs.in_use)
    is_half = (most > ROUNDED * SINGLE) & np.isnan(seen.exact[rows]) & ~runs.discrete[rows]
    return np.asarray(np.where(is_half, np.fmin(told, most), 0.0))


def steepness(seen: Observations) -> Float:
    """By row how many times smaller than the others the smallest element is; most if any is zero.

    Of a tensor of both signs nobody knows.
    """
    with np.errstate(all="ignore"):
        told = np.where(seen.smallest > 0, seen.rms / seen.smallest, seen.peak / seen.rms)
    return np.asarray(np.clip(np.nan_to_num(told, nan=1.0), 1.0, STEEPEST))


def of_smallest(runs: Runs, rows: Int) -> Float:
    """How far off the smallest element of each of some rows is by itself, as a fraction of it.

    0 of tensors of both signs.
    """
    table, other = runs.npu.table, runs.other[rows]
    known = np.flatnonzero((other >= 0) & table.is_tensor[rows])
    result = np.zeros(len(rows))
    debug = table.statistics[:2, rows[known]]
    reference = runs.bench.table.statistics[:2, other[known]]
    with np.errstate(all="ignore"):
        smallest = np.abs(reference).min(axis=0)
        apart = np.abs(np.abs(debug).min(axis=0) - smallest) / smallest
    one_sign = (debug[0] * debug[1] > 0) & (reference[0] * reference[1] > 0)
    result[known] = np.where(one_sign, np.nan_to_num(apart, posinf=0.0), 0.0)
    return result
