"""What two correct runs differ by: the reference against a second or a perturbed run of it.

Where each tensor ends up when nothing is wrong is the best there is to know of noise: it holds what
kernels add, what chaos makes of it, and which choices of indices are close.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.graph.floating import discrete_types
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.part import Part
from msprobe_builder.metrics.comparison import Comparisons

Float = NDArray[np.float64]
Int = NDArray[np.int64]

_NORM = 3
_OTHER = 1.0  # of whole numbers, and of tensors of which checksums alone tell that they differ


def baseline(noise: Part, bench: Part, comparisons: Comparisons, texts: Texts) -> Float:
    """The error that noise makes of each row of the reference's table, NaN where not known.

    ``comparisons`` are those of the second run with the reference. Two draws of one error differ,
    by luck down to nothing, so that of a tensor is at least the median of what its operator puts
    out, or is given, in that direction.
    """
    result = np.full(len(bench.table), np.nan)
    rows, there = comparisons.pairs.npu, comparisons.pairs.bench
    result[there] = _apart(noise.table.statistics[:, rows], bench.table, there)
    is_whole = discrete_types(texts)[bench.table.dtype_id]
    result[is_whole & (result > 0)] = _OTHER
    if comparisons.md5_equal is not None:
        equal, other = (there[comparisons.md5_equal == one] for one in (1, 0))
        result[equal] = 0.0
        result[other[np.isnan(result[other])]] = _OTHER
    known = np.flatnonzero(np.isfinite(result))
    if not len(known):
        return result
    kind = bench.calls.operations[bench.table.node[known]] * 8 + bench.table.section[known]
    order = np.argsort(kind, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(kind[order]) != 0])
    for several in np.split(known[order], starts[1:]):
        result[several] = np.maximum(result[several], np.median(result[several]))
    return result


def _apart(second: Float, bench: ParameterTable, rows: Int) -> Float:
    """The furthest of maximum, minimum, mean and norm, as fractions of the size of elements."""
    reference = bench.statistics[:, rows]
    with np.errstate(all="ignore"):
        usual = reference[_NORM] / np.sqrt(np.fmax(bench.numel[rows], 1))
        largest = np.fmax(usual, np.abs(reference[:2]).max(axis=0))
        change = np.abs(second - reference) / np.stack([largest, largest, usual, reference[_NORM]])
        change[second == reference] = 0.0
    return np.asarray(np.fmax.reduce(np.where(np.isfinite(change), change, np.nan), axis=0))
