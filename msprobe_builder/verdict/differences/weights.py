"""Weights that one side keeps in a coarser type than the other.

They are rounded once, each element by half a unit at most and up as often as down. So the norm of
n elements moves by half a unit over √n or so, which is next to nothing, and never by more than a
unit, in whatever way it is rounded. A norm that is off by more was not rounded: that is another
weight, however little it differs.

Training rounds at every step, and a weight that was trained in the coarser type goes its own way.
Hence a matrix is judged only where nearly all matrices agree that closely, those that need a
gradient and those that need none each for themselves, and likewise what has one dimension.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.floating import epsilons
from msprobe_builder.graph.parameter_table import ParameterTable

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_NORM = 3
_MOST = 0.75  # share of the weights that are merely rounded; a fault may be in every layer
_SEVERAL = 6


def errors_of_weights(
    npu: ParameterTable, bench: ParameterTable, bench_of: Int, is_line: Bool, texts: Texts
) -> Float:
    """By npu row the error of a weight that no rounding explains, 0 of all other rows.

    What its norm is off by is measured by what rounding once makes of it, wherever the weight is
    given to a call. ``is_line`` are the npu rows of one dimension.
    """
    result = np.zeros(len(npu))
    rows = np.flatnonzero((npu.section == Section.PARAMETERS) & npu.is_tensor & (bench_of >= 0))
    others = bench_of[rows]
    debug, reference = epsilons(npu.dtype_id[rows], texts), epsilons(bench.dtype_id[others], texts)
    unit = np.maximum(debug, reference)
    root = np.sqrt(np.fmax(bench.numel[others], 1.0))
    with np.errstate(all="ignore"):
        moved = np.abs(npu.statistics[_NORM, rows] / bench.statistics[_NORM, others] - 1.0)
    # Both sides may write the same type, and then both were rounded alike.
    judged = np.isfinite(moved) & (debug != reference) & (npu.numel[rows] == bench.numel[others])
    kind = npu.requires_grad[rows] * 2 + is_line[rows]
    for one in np.unique(kind[judged]).tolist():
        of_kind = judged & (kind == one)
        is_rounded = moved[of_kind] * root[of_kind] <= unit[of_kind]
        if len(is_rounded) < _SEVERAL or float(is_rounded.mean()) < _MOST:
            judged &= ~of_kind
    off = np.flatnonzero(judged & (moved > unit))
    for row, error in zip(rows[off].tolist(), (2.0 * moved * root)[off].tolist(), strict=True):
        same = npu.shape_id == npu.shape_id[row]
        same &= (npu.statistics == npu.statistics[:, [row]]).all(axis=0) & (bench_of >= 0)
        alike = np.flatnonzero(same)
        debug, there = bench.statistics[:, bench_of[[row]]], bench.statistics[:, bench_of[alike]]
        result[alike[(there == debug).all(axis=0)]] = error
    return result
