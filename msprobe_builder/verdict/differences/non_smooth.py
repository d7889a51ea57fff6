"""Operators whose slope jumps, and what rounding does to the gradients that they give back.

A rectifier, a clamp or a pool of maxima hands on some elements of its gradient and drops the
others; which ones, the forward call decided. Where its input is off by the fraction e of its size,
about the fraction e of the elements lies so near to the jump that they fall on its other side, and
each of them comes or goes as a whole. So the gradient moves by √e of its size, the root of the sum
of squares over the fraction e of its elements, which is far more than e; single elements may be
all wrong. Only the norm tells a fault, but for what one element, the largest, adds to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.part import Part
from msprobe_builder.operators.operator import Operator
from msprobe_builder.verdict.differences.distance import BLOCK, WORST, weights

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


def shares_gradients(operator: Operator) -> bool:
    """Whether equal elements share the gradient.

    Where rounding parts them one takes all: that is no small fraction of them where many are equal,
    as a ratio that is clipped and the ratio itself. What they share is what was given.
    """
    return "ties" in operator.breaks


def non_smooth_gradients(part: Part) -> Bool:
    """The backward calls of such operators, and of modules that are one, by node."""
    calls = part.calls
    non_smooth = calls.do(lambda one: "kink" in one.breaks)
    leaf = part.tree.subtree_end == np.arange(len(part.tree))
    non_smooth &= calls.is_api | (calls.is_module & leaf)
    return np.asarray(non_smooth & (calls.direction == Direction.BACKWARD), dtype=bool)


def errors_of_norm(npu: ParameterTable, bench: ParameterTable, bench_of: Int) -> Float:
    """By npu row how far its norm is off, beyond what the largest element adds; 0 where unknown.

    An element of the fraction m of the norm changes it by m² / 2. In units of the other errors.
    """
    result = np.zeros(len(npu))
    for begin in range(0, len(npu), BLOCK):
        rows = begin + np.flatnonzero(bench_of[begin : begin + BLOCK] >= 0)
        others = bench_of[rows]
        largest = np.zeros(len(rows))
        for statistics, taken in ((npu.statistics, rows), (bench.statistics, others)):
            for extreme in statistics[:2]:
                np.maximum(largest, np.abs(extreme[taken]), out=largest)
        with np.errstate(all="ignore"):
            norm = bench.statistics[3][others]
            error = np.abs(npu.statistics[3][rows] / norm - 1) - (largest / norm) ** 2 / 2
            error /= weights(np.fmax(bench.numel[others], 1.0))
        result[rows] = np.clip(np.nan_to_num(error, nan=0.0, posinf=WORST), 0.0, WORST)
    return result


def off_in_sum(
    npu: ParameterTable, bench: ParameterTable, bench_of: Sequence[int], rows: Sequence[int]
) -> float:
    """How far the sum of all elements of some npu rows is off, as a fraction of their size.

    Rows without a counterpart are left out.
    """
    own = [row for row in rows if bench_of[row] >= 0]
    other = [bench_of[row] for row in own]
    elements = np.fmax(npu.numel[own], 1.0)
    apart = npu.statistics[2, own] - bench.statistics[2, other]
    size = float(np.sum(bench.statistics[3, other] * np.sqrt(elements)))
    return abs(float(np.sum(apart * elements))) / size if size > 0 else math.inf
