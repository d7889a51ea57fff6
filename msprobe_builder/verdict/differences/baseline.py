"""What two correct runs differ by: the reference against a second or a perturbed run of it.

Where each tensor ends up when nothing is wrong is the best there is to know of noise: it holds what
kernels add, what chaos makes of it, and which choices of indices are close.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.graph.calls import operations
from msprobe_builder.graph.part import Part, put_out_by
from msprobe_builder.metrics.comparison import Comparisons
from msprobe_builder.verdict.differences.distance import OTHER_BITS, distances
from msprobe_builder.verdict.differences.operators import has_other_precision, normalising

Float = NDArray[np.float64]
Int = NDArray[np.int64]


def baseline(noise: Part, bench: Part, comparisons: Comparisons, texts: Texts) -> Float:
    """The error that noise makes of each row of the reference's table, NaN where not known.

    ``comparisons`` are those of the second run with the reference. Two draws of one error differ,
    by luck down to nothing, so that of a tensor is at least the median of what its operator puts
    out, or is given, in that direction.
    """
    result = np.full(len(bench.table), np.nan)
    other_types = has_other_precision(noise, bench.table, comparisons)
    found = distances(
        noise.table,
        bench.table,
        comparisons,
        texts,
        other_types=other_types,
        normalised=put_out_by(noise, normalising(noise.calls)),
        other_bits=OTHER_BITS,
    )
    result[comparisons.pairs.bench] = found.error
    known = np.flatnonzero(np.isfinite(result))
    if not len(known):
        return result
    kind = operations(bench.calls)[bench.table.node[known]] * 8 + bench.table.section[known]
    order = np.argsort(kind, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(kind[order]) != 0])
    for rows in np.split(known[order], starts[1:]):
        result[rows] = np.maximum(result[rows], np.median(result[rows]))
    return result
