"""How large the numbers are that a mask leaves to be seen.

Behind a mask the one extreme is its filler, and norm and mean are made of it. The other extreme
may be next to nothing by chance, such as the largest of scores that are negative; what was masked
tells the size.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Section
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
    # What a filler alone fills is no size either.
    known = table.is_tensor & ~whole & np.isnan(visible) & np.isfinite(extreme)
    known &= table.statistics[0] != table.statistics[1]
    for row in filled.tolist():
        made_by = row if table.section[row] == Section.OUTPUT else int(producer[row])
        if made_by < 0:
            continue
        if np.isnan(result[made_by]) or made_by == row:
            rows = inputs_of(table, int(table.node[made_by]))
            sizes = np.where(known[rows], extreme[rows], np.nan_to_num(result[rows]))
            result[row] = max(result[row], float(sizes.max(initial=0.0)))
        else:
            result[row] = max(result[row], result[made_by])
    return result
