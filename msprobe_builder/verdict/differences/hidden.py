"""How much of what rounding did before a tensor may hold unseen.

An error that has nothing in common with the tensor, as that of rounding, adds its square: of size e
it makes √(1 + e²) of the norm, give or take 3 e / √n. So a norm that is off by d tells that e is no
more than

    √(2d + d²) + 6 / √n

whatever the errors of everything before may have come to. Where few elements make the norm it is
more, but suspicious is eight times that. What keeps its norm whatever it is given tells nothing: a
normalisation, a sine, truth values, a mask's mask value.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.graph.part import Part, put_out_by
from msprobe_builder.operators import questions
from msprobe_builder.verdict.differences.distance import weights
from msprobe_builder.verdict.differences.operators import normalising

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_TWICE = 2.0  # what has a little in common with the tensor
_SPREAD = 6.0


def most_hidden(
    npu: Part, bench_statistics: Float, bench_of: Int, floor: Float, fixed: Bool
) -> Float:
    """By npu row the largest error of rounding that its norm leaves possible, else infinity.

    ``fixed`` are rows of which the norm tells nothing. A norm is known as far as rounding in the
    tensor's type leaves it, ``floor`` times what averages out.
    """
    table = npu.table
    result = np.full(len(table), np.inf)
    told = (bench_of >= 0) & table.is_tensor & (table.numel > 0) & ~fixed
    told &= ~put_out_by(npu, normalising(npu.calls) | npu.calls.are(questions.is_periodic))
    rows = np.flatnonzero(told)
    own = table.statistics[:, rows]
    with np.errstate(all="ignore"):
        apart = np.abs(own[3] / bench_statistics[3, bench_of[rows]] - 1.0)
        known = apart + floor[rows] * weights(table.numel[rows])
        result[rows] = largest_unseen(known, table.numel[rows])
    return np.where(np.isfinite(result), result, np.inf)


def largest_unseen(apart: Float, elements: Float) -> Float:
    """The largest error, as a fraction, of tensors of so many elements whose norm is off so far."""
    alone = np.sqrt(2.0 * apart + apart**2)
    return np.asarray(_TWICE * alone + _SPREAD / np.sqrt(elements))
