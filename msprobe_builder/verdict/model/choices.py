"""What follows from another choice: elements that come from elsewhere in one of the runs.

A choice that rounding changed (another expert, another bin) exchanges whole rows of all that is
computed of it. Statistics show little of that, so it is followed from call to call.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Section
from msprobe_builder.verdict.model.conduct import Conduct
from msprobe_builder.verdict.model.observations import Observations
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_JUMPED = 1e-3  # an element that jumps is off by as much as itself


def behind_choices(runs: Runs, seen: Observations, does: Conduct) -> Bool:
    """Rows that are made of whole numbers in which the runs differ, or of elements that jumped."""
    table = runs.npu.table
    start = runs.discrete & (seen.differs) & table.is_tensor
    jumped = does.breaks[table.node] & (table.section == Section.OUTPUT) & ~runs.discrete
    start |= jumped & (seen.size > _JUMPED)
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
    return result
