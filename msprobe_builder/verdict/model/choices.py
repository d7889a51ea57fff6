"""What follows from another choice: elements that come from elsewhere in one of the runs.

A choice that rounding changed (another expert, another bin) exchanges whole rows of all that is
computed of it. Statistics show little of that, so it is followed from call to call.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Section
from msprobe_builder.operators.operator import Kind
from msprobe_builder.verdict.model.clue import Evidence
from msprobe_builder.verdict.model.conduct import REACH, Conduct
from msprobe_builder.verdict.model.observations import Observations
from msprobe_builder.verdict.model.runs import Runs

Bool = NDArray[np.bool_]

_JUMPED = 1e-3  # an element that jumps is off by as much as itself
_NOTHING = 0.5  # of its size, by which what is but rounding is off
_GATHERS = {Kind.JOIN, Kind.PLACE, Kind.MASK}


def behind_choices(runs: Runs, seen: Observations, does: Conduct) -> Bool:
    """Rows that are made of whole numbers in which the runs differ, or of elements that jumped."""
    table = runs.npu.table
    start = runs.discrete & (seen.differs) & table.is_tensor
    jumped = (
        (does.breaks | does.turns)[table.node] & (table.section == Section.OUTPUT) & ~runs.discrete
    )
    pointless = _of_nothing(runs, seen, does)
    start |= (jumped | pointless) & (seen.size > _JUMPED)
    result = np.asarray(start.copy())
    if not start.any():
        return result
    maker = runs.origin
    judged = runs.npu.calls.is_api | (runs.npu.calls.is_module & ~runs.open)
    first = int(np.flatnonzero(start)[0])
    rows = first + np.flatnonzero(table.is_tensor[first:])
    node, of_input, made = table.node[rows], table.section[rows] == Section.INPUT, maker[rows]
    told = np.zeros(len(runs.npu.tree), dtype=bool)
    twin = runs.npu.calls.twin
    columns = (rows, node, of_input, made, judged[node])
    for row, at, is_input, source, is_judged in zip(
        *(one.tolist() for one in columns), strict=True
    ):
        if source >= 0 and result[source]:
            result[row] = True
        if is_input and result[row]:
            told[at] = True
        elif not is_input and is_judged and (told[at] or (twin[at] >= 0 and told[twin[at]])):
            result[row] = True
    # What a module puts out is told before the call inside that makes it.
    handed = np.flatnonzero(runs.rows(Section.OUTPUT) & runs.open[table.node] & (maker >= 0))
    result[handed] |= result[maker[handed]]
    return result & ~pointless  # the length of what may point anywhere is known


def chosen_otherwise(evidence: Evidence, behind: Bool) -> int | None:
    """The first call that chose other places, or signs, of what agrees; None if nothing shows it.

    ``behind`` are the rows that follow from choices.
    """
    runs, seen = evidence.runs, evidence.seen
    table, size = runs.npu.table, len(runs.npu.tree)
    shows = behind & evidence.off & runs.rows(Section.OUTPUT) & ~runs.discrete
    if not shows.any():
        return None
    other = runs.discrete & seen.differs & ~runs.by_sum
    given = np.zeros(size, dtype=bool)
    given[table.node[runs.rows(Section.INPUT) & (other | evidence.off)]] = True
    put_out = other | (evidence.off & evidence.does.turns[table.node])
    chose = np.zeros(size, dtype=bool)
    chose[table.node[put_out & runs.rows(Section.OUTPUT)]] = True
    told = runs.npu.calls.is_forward_call & runs.npu.calls.is_api & ~evidence.does.free
    nodes = np.flatnonzero(chose & ~given & told)
    first = int(table.node[shows].min())
    return int(nodes[0]) if len(nodes) and nodes[0] <= first else None


def _of_nothing(runs: Runs, seen: Observations, does: Conduct) -> Bool:
    """Outputs of normalisations of what was put together with rounding alone.

    That part hardly shows where it is put, but each row is brought to one length, and may point
    anywhere.
    """
    table, calls = runs.npu.table, runs.npu.calls
    given = runs.rows(Section.INPUT)
    gathers, points = (np.zeros(len(runs.npu.tree) + 1, dtype=bool) for _ in range(2))
    gathers[table.node[given & (seen.size >= _NOTHING)]] = True
    gathers[:-1] &= calls.are(lambda one: one.kind in _GATHERS) & calls.is_forward_call
    hides = given & gathers[np.append(table.node, -1)[runs.origin]] & (seen.size < _NOTHING)
    points[table.node[hides]] = True
    points[:-1] &= does.normalises & (does.kind != REACH)
    return np.asarray(runs.rows(Section.OUTPUT) & points[table.node])
