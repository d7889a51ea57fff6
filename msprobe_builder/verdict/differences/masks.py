"""How large the numbers are that a mask leaves to be seen.

Behind a mask the one extreme is its mask value, and norm and mean are made of it. The other extreme
may be next to nothing by chance, such as the largest of scores that are negative; what was masked
tells the size.
"""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.part import Part, inputs_of

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


def sizes_behind_masks(npu: Part, producer: Int, visible: Float, whole: Bool) -> Float:
    """``visible``, by row, at least the largest element of what the call has masked.

    ``whole`` are rows of whole numbers and truth values, which are no sizes.
    """
    table, result = npu.table, visible.copy()
    filled = np.flatnonzero(~np.isnan(visible))
    if not len(filled):
        return result
    with np.errstate(all="ignore"):
        extreme = np.abs(table.statistics[:2]).max(axis=0)
    # What a mask value alone fills is no size either.
    known = table.is_tensor & ~whole & np.isnan(visible) & np.isfinite(extreme)
    known &= table.statistics[0] != table.statistics[1]
    is_output = table.section[filled] == Section.OUTPUT
    made = np.where(is_output, filled, producer[filled]).tolist()
    sizes = dict(zip(filled.tolist(), visible[filled].tolist(), strict=True))
    for (row, size), made_by in zip(list(sizes.items()), made, strict=True):
        if made_by != row and made_by in sizes:
            sizes[row] = max(size, sizes[made_by])
        elif made_by >= 0:
            given = inputs_of(table, int(table.node[made_by])).tolist()
            told = (extreme[one] if known[one] else sizes.get(one, 0.0) for one in given)
            sizes[row] = max(size, min(float(max(told, default=0.0)), sys.float_info.max))
    result[filled] = list(sizes.values())
    return result


def sizes_of_terms(
    npu: Part, bench: ParameterTable, bench_of: Int, producer: Int, sums: Bool, moves: Bool
) -> Float:
    """By row, where the reference has nothing but 0: the largest element of what was added up.

    The difference of two equal numbers is nothing there and rounding here, which its own size
    tells nothing of. A gradient that is nothing there is measured by what its call is given, or
    is off by as much as that where it was nothing, too. ``sums`` and ``moves`` are the calls, by
    node, that add up and that merely hand on. NaN elsewhere.
    """
    table = npu.table
    result = np.full(len(table), np.nan)
    extreme = np.abs(table.statistics[:2]).max(axis=0)
    reference = np.append(np.abs(bench.statistics[:2]).max(axis=0), np.nan)[bench_of]
    back = npu.calls.direction == Direction.BACKWARD
    for row in np.flatnonzero((reference == 0) & (extreme > 0)).tolist():
        node, made_by = int(table.node[row]), int(producer[row])
        if made_by >= 0:
            result[row] = result[made_by]
        elif table.section[row] == Section.OUTPUT and (sums | moves | back)[node]:
            rows = inputs_of(table, node)
            if (sums | (back & ~moves))[node]:
                with np.errstate(all="ignore"):
                    grown = result[rows] * extreme[row] / extreme[rows]
                known = np.where(back[node] & np.isfinite(grown), grown, extreme[rows])
            else:
                known = result[rows[:1]]
            known = known[np.isfinite(known)]
            result[row] = known.max(initial=0.0) or np.nan
    return result
