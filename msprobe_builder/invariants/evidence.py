"""Which tensors of a rank tell, beside those of other ranks, whether all is as it must be."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import Direction, Section
from msprobe_builder.graph.calls import communicates
from msprobe_builder.graph.part import Part
from msprobe_builder.graph.sketch_rows import SketchedRows, sketched_rows

Int = NDArray[np.int64]


def rows_that_tell(part: Part) -> Int:
    """Tensors that ranks exchange or must have alike, and those of calls beside that.

    The latter are calls outside of all modules, among them those of optimizers, and what is done
    with what arrived and what is sent.
    """
    table, calls = part.table, part.calls
    forward = calls.is_forward_call
    talks = forward & np.asarray(calls.of_stems(communicates), dtype=bool)
    above = part.tree.parent
    is_inside = calls.is_module[above] & (calls.direction[above] != Direction.NONE)
    chosen = talks | (forward & ~is_inside)
    if table.origins is not None:
        chosen |= _beside(talks, table.node, table.origins.maker)
    chosen &= forward
    first = calls.is_module & (calls.call == 0)
    wanted = chosen[table.node] | (table.section == Section.PARAMETERS_GRAD)
    wanted |= first[table.node] & (table.section == Section.PARAMETERS)
    return np.flatnonzero(wanted & table.is_tensor)


def _beside(talks: NDArray[np.bool_], node: Int, maker: Int) -> NDArray[np.bool_]:
    """Calls that are given what arrived, and those that make what is sent, of two in a row.

    With all that is given what these make: one that goes on with it instead of what arrived.
    """
    is_made = maker >= 0
    near = talks.copy()
    for _ in range(2):
        near[node[maker[near[node] & is_made]]] = True
    after = np.zeros_like(talks)
    after[node[is_made & near[node[maker]]]] = True
    return near | after


def evidence_of(part: Part) -> SketchedRows:
    """What the database keeps of a rank."""
    return sketched_rows(part.table, rows_that_tell(part))
