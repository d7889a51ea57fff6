"""Which tensors of a rank tell, beside those of other ranks, whether all is as it must be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import Direction, Section
from msprobe_builder.graph.calls import communicates
from msprobe_builder.graph.part import Part
from msprobe_builder.sketch.definition import NUMBERS

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


@dataclass(frozen=True)
class Evidence:
    """Rows of a table as the database keeps them; one element per row.

    ``numbers`` has shape (n, NUMBERS); ``left_out`` is -1 without a sketch.
    """

    row: Int
    numbers: NDArray[np.float32]
    left_out: Int


def evidence_of(part: Part) -> Evidence:
    """What the database keeps of a rank."""
    rows, sketched = rows_that_tell(part), part.table.sketched
    numbers = np.zeros((len(rows), NUMBERS), dtype=np.float32)
    left_out = np.full(len(rows), -1, dtype=np.int64)
    if sketched is not None:
        known = np.flatnonzero(sketched.row[rows] >= 0)
        found = sketched.sketches.rows(sketched.row[rows[known]])
        numbers[known] = found["numbers"]
        left_out[known] = found["nans"].astype(np.int64) + found["infinities"]
    return Evidence(rows, numbers, left_out)
