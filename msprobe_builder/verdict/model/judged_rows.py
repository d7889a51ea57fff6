"""Tensors that go into the calls that are judged and come out, and what tells of their errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Section
from msprobe_builder.verdict.model.conduct import PRODUCTS, Conduct
from msprobe_builder.verdict.model.elements import of_few, steepness
from msprobe_builder.verdict.model.observations import Observations
from msprobe_builder.verdict.model.products import (
    cancelling,
    cancelling_back,
    factors_of,
    uneven,
)
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
Float = NDArray[np.float64]

_ROUNDED_ONCE = 12**-0.5  # of a rounding unit, what an even spread over one is off by


@dataclass(frozen=True)
class JudgedRows:
    """Rows by what they are to the calls that are judged."""

    inputs: Int
    outputs: Int  # of calls, and of modules in which nothing was recorded
    handed_on: Int  # outputs of modules that calls inside have put out
    unseen: NDArray[np.uint8]  # by row, how many numbers deny an expected error, see _UNSEEN
    above: Bool  # by row, whether it is what a quotient divides
    steep: Float  # by row, how many times smaller than the others its smallest element is
    cancelled: Float  # by output of a product, the length of its terms over its own
    uneven: Float  # by output of a product by elements, the size of unrelated factors over its own
    hidden: Float  # by input, what it is off by at least, whatever is read of it

    @staticmethod
    def of(runs: Runs, seen: Observations, does: Conduct) -> JudgedRows:
        calls, table = runs.npu.calls, runs.npu.table
        judged = calls.is_api | (calls.is_module & ~runs.open)
        given = runs.rows(Section.INPUT) | (runs.rows(Section.PARAMETERS) & ~runs.open[table.node])
        given &= judged[table.node] | calls.is_module[table.node]
        put_out = runs.rows(Section.OUTPUT)
        inputs = np.flatnonzero(given)
        outputs = np.flatnonzero(put_out & judged[table.node])
        cancelled, scaled = np.ones((2, len(outputs)))
        made = table.node[outputs]
        products = np.flatnonzero((does.kind == PRODUCTS)[made])
        factors = factors_of(runs, inputs, outputs[products], seen)
        lengths = cancelling(seen, inputs, outputs[products], table.node, does.kind == PRODUCTS)
        cancelled[products] = lengths * cancelling_back(runs, factors, seen)[outputs[products]]
        scaling = np.flatnonzero(does.scales[made])
        factors = factors_of(runs, inputs, outputs[scaling], seen)
        scaled[scaling] = uneven(runs, factors, seen)[outputs[scaling]]
        above = _above(runs, does)
        return JudgedRows(
            inputs,
            outputs,
            np.flatnonzero(put_out & runs.open[table.node]),
            np.where(np.isnan(seen.exact), (~np.isnan(seen.moved)).sum(axis=0, dtype=np.uint8), 5),
            above,
            np.where(above, 1.0, steepness(seen)),
            cancelled,
            scaled,
            np.fmax(of_few(runs, seen, inputs), _held(runs, seen, inputs)),
        )


def _above(runs: Runs, does: Conduct) -> Bool:
    """Rows that a quotient divides: all but its last; one alone is divided by a number."""
    table, size = runs.npu.table, len(runs.npu.tree)
    rows = np.flatnonzero(does.divides[table.node] & table.is_tensor & runs.rows(Section.INPUT))
    last = np.ones(size, dtype=np.int64)
    np.maximum.at(last, table.node[rows], table.position[rows])
    result = np.zeros(len(table), dtype=bool)
    result[rows] = table.position[rows] < last[table.node[rows]]
    return result


def _held(runs: Runs, seen: Observations, rows: Int) -> Float:
    """What a tensor that one side holds in fewer digits is off by, whatever is read of it.

    Numbers that agree on both sides had no more digits there.
    """
    is_rounded = (runs.coarse[rows] != runs.fine[rows]) & ~runs.discrete[rows]
    is_rounded &= (seen.size[rows] > 0) & np.isnan(seen.exact[rows])
    return np.where(is_rounded, _ROUNDED_ONCE * runs.coarse[rows], 0.0)
