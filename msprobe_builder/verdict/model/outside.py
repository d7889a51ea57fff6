"""Tensors that no recorded call has made, and what is known of them all the same."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.flow_layout import Maker
from msprobe_builder.dump.parameters import Section
from msprobe_builder.verdict.model.conduct import Conduct
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_HELD = (Maker.PARAMETER, Maker.BUFFER)
_WEIGHT = (Maker.PARAMETER,)
BEFORE = 40  # outputs that tell of what stands behind them


def are_held(runs: Runs, rows: Int) -> Bool:
    """Which rows both collectors recorded as weights or buffers as they were before the step.

    What else no call has made may be a gradient that was added up, and is off by what those are.
    """
    return _are_kept_as(runs, rows, _HELD)


def are_weights(runs: Runs, rows: Int) -> Bool:
    """The same of weights alone, which calls are given themselves where no module holds them."""
    return _are_kept_as(runs, rows, _WEIGHT)


def is_state(runs: Runs, does: Conduct, row: int) -> bool:
    """Whether both collectors recorded a row as a buffer, or as what a call wrote in place.

    Where they recorded neither, an average that a normalisation keeps is one.
    """
    for part, at in ((runs.npu, row), (runs.bench, int(runs.other[row]))):
        origins = part.table.origins
        if at < 0:
            return False
        if origins is None:
            return bool(runs.maker[row] < 0 and are_averages(runs, does, np.array([row]))[0])
        made = int(origins.maker[at])
        is_written = made >= 0 and int(part.table.section[made]) == Section.INPUT
        is_written = is_written and bool(part.calls.is_api[part.table.node[made]])
        if int(origins.kind[at]) != Maker.BUFFER and not is_written:
            return False
    return True


def _are_kept_as(runs: Runs, rows: Int, kinds: tuple[Maker, ...]) -> Bool:
    result = ~runs.backward[runs.npu.table.node[rows]]
    for table, own in ((runs.npu.table, rows), (runs.bench.table, runs.other[rows])):
        if table.origins is None:
            return np.zeros(len(rows), dtype=bool)
        result &= (own >= 0) & np.isin(table.origins.kind[own], kinds)
    return result


def are_averages(runs: Runs, does: Conduct, rows: Int) -> Bool:
    """Which rows are means and variances that a normalisation is given to keep: nobody trains them.

    What one and no weight is, tells a recorded maker; without one what needs no gradient is none.
    """
    table, node = runs.npu.table, runs.npu.table.node[rows]
    position = table.position[rows]
    is_kept = (table.section[rows] == int(Section.INPUT)) & (position >= 1) & (position <= 2)
    is_kept &= does.normalises[node] & ~runs.backward[node] & (table.requires_grad[rows] == 0)
    return np.asarray(is_kept & ~are_weights(runs, rows))


def take_no_part(runs: Runs, does: Conduct, rows: Int) -> Bool:
    """Which rows are without a gradient among calls whose results have one.

    Of those whose maker nobody knows no call of the model has made them: tables, data, constants.
    But for averages that a normalisation keeps, and what may be a gradient.
    """
    table = runs.npu.table
    floats = runs.rows(Section.OUTPUT) & ~runs.discrete & ~runs.backward[table.node]
    put_out = np.flatnonzero(floats & runs.npu.calls.is_api[table.node])
    is_kept = does.normalises | np.maximum.accumulate(runs.backward)
    trained = np.append(0, np.cumsum(table.requires_grad[put_out] == 1))
    place = np.searchsorted(table.node[put_out], table.node[rows])
    first = np.maximum(place - BEFORE, 0)
    most = 2 * (trained[place] - trained[first]) > place - first
    return np.asarray(most & (table.requires_grad[rows] == 0) & ~is_kept[table.node[rows]])
