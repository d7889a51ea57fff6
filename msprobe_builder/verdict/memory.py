"""Tensors that were recorded before anybody wrote to them: what they hold means nothing.

``empty`` and its like hand out memory as it was, and communication is given the tensors that it
shall write to.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.verdict.calls import Calls
from msprobe_builder.verdict.operators import Family

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

# Where communication writes to: the first argument, or one of these keywords.
_FIRST = frozenset(
    "recv irecv all_gather all_gather_into_tensor all_gather_base reduce_scatter "
    "reduce_scatter_tensor reduce_scatter_base all_to_all all_to_all_single scatter".split()
)
_KEYWORDS = ("tensor_list", "output", "output_tensor", "output_tensor_list", "gather_list")


def unwritten(
    calls: Calls, table: ParameterTable, family: Int, producer: Int, texts: Texts
) -> Bool:
    """Rows whose contents mean nothing: fresh memory, and what is about to be overwritten."""
    result = np.asarray((family == Family.UNINITIALISED)[table.node], dtype=bool)
    made = producer >= 0
    result[made] |= result[producer[made]]
    talks = np.flatnonzero(family == Family.COMMUNICATION)
    if not len(talks):
        return result
    first = talks[calls.are(_FIRST)[talks]]
    rows = np.flatnonzero((table.section == Section.INPUT) & np.isin(table.node, talks))
    is_first = np.isin(table.node[rows], first)
    for row, leads in zip(rows.tolist(), is_first.tolist(), strict=True):
        place = texts.values[table.name_id[row]].split(".")[1:2]
        if place and ((leads and place[0] in ("0", "tensor")) or place[0] in _KEYWORDS):
            result[row] = True
    return result
