"""What makes an accusation in half precision certain: norms move by less than elements do."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.graph.part import inputs_of
from msprobe_builder.verdict.differences.distance import mask_values
from msprobe_builder.verdict.differences.flow import Flow
from msprobe_builder.verdict.differences.operators import Family
from msprobe_builder.verdict.findings import SUSPICIOUS, Cause, Finding

Float = NDArray[np.float64]


def told_by_norm(flow: Flow, finding: Finding) -> bool:
    """Whether the norm of a call's output is off by more than half precision explains.

    Elements that are off by e, up as often as down, move the norm of n of them by e/√n, and by
    e²/2 as what is added to them; a sixteenth of a unit is what does not average out. What the
    norms of the inputs are off by is inherited, more where a product cancels. Not that of
    gradients, which are off in common, nor where a mask's mask value or few elements make the norm.
    """
    table, bench, row = flow.npu.table, flow.bench.table, finding.row
    node, floor = finding.at, float(flow.floor[row])
    rows = inputs_of(table, node)
    rows = rows[~flow.discrete[rows]]
    if (finding.side, finding.node, finding.cause, finding.root) != (0, node, Cause.OUTPUT, -1):
        return False
    if not flow.npu.calls.is_forward_call[node] or flow.is_merged or flow.grouped.npu[node] >= 0:
        return False
    is_told = flow.in_half[row] and table.numel[row] >= _FEW and len(rows) > 0
    if not is_told or flow.npu.calls.is_module[node]:
        return False
    rows = np.append(rows, row)
    if (flow.bench_of[rows] < 0).any() or np.isnan(flow.error[rows]).any():
        return False
    debug, reference = table.statistics[:, rows], bench.statistics[:, flow.bench_of[rows]]
    with np.errstate(all="ignore"):
        moved = np.abs(debug[3] / reference[3] - 1.0)
    if not np.isfinite(moved).all() or mask_values(debug, reference, table.numel[rows]).any():
        return False
    cancelled = 1.0
    if flow.family[node] == Family.PRODUCT:
        cancelled = _cancelled(reference[3], table.numel[rows])
    error = max(finding.expected, floor) * cancelled
    rounding = error / math.sqrt(table.numel[row]) + error**2 / 2.0 + floor / 16.0
    inherited = _INHERITED * cancelled * float(moved[:-1].sum())
    return bool(moved[-1] > inherited + SUSPICIOUS * rounding)


_FEW = 16  # elements, of which one may make the norm
_INHERITED = 3.0  # a call may bend what it is given


def _cancelled(norms: Float, elements: Float) -> float:
    """How many times larger a product's norm would be if its terms had nothing in common.

    The last norm and number of elements is that of the product, the others are its factors'.
    """
    most = 1.0
    for one, other in combinations(range(len(norms) - 1), 2):
        terms = math.sqrt(elements[one] * elements[other] / elements[-1])
        if terms > 1.0 and norms[-1] > 0.0:
            most = max(most, float(norms[one] * norms[other] / norms[-1]) / math.sqrt(terms))
    return most
