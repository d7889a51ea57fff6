"""Which tensors of a rank tell, beside those of other ranks, whether all is as it must be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import Direction, Section
from msprobe_builder.graph.calls import communicates
from msprobe_builder.graph.part import Part
from msprobe_builder.graph.recorded_places import Places
from msprobe_builder.sketch.definition import NUMBERS
from msprobe_builder.sketch.file import Sketches, read_sketches
from msprobe_builder.sketch.layout import NAME

Int = NDArray[np.int64]


@dataclass(frozen=True)
class SketchedRows:
    """The sketches of a rank; ``number`` is that of each row of its table, -1 without one."""

    sketches: Sketches
    number: Int

    def numbers(self, rows: Int) -> NDArray[np.float64]:
        """The sketches of rows that have one, (n, NUMBERS)."""
        return np.asarray(self.sketches.rows(self.number[rows])["numbers"], dtype=np.float64)

    def left_out(self, rows: Int) -> Int:
        """How many NaN and infinities each leaves out."""
        found = self.sketches.rows(self.number[rows])
        return np.asarray(found["nans"].astype(np.int64) + found["infinities"])


def sketched_rows(part: Part, directory: Any) -> SketchedRows | None:
    """The sketches beside a dump, of its calls on the way forward; None where it has none.

    BuildError when they are damaged.
    """
    sketches = read_sketches(directory / NAME, int(part.tree.record.max(initial=-1)) + 1)
    if sketches is None:
        return None
    shown = sketches.places[sketches.places["section"] <= Section.PARAMETERS_GRAD]
    rows = Places(part.tree, part.table).of(shown["record"], shown["section"], shown["position"])
    number = np.full(len(part.table), -1, dtype=np.int64)
    number[rows[rows >= 0]] = shown["row"][rows >= 0]
    # Of gradients the table may show those by argument, which lie in sections of their own.
    number[(part.calls.direction == Direction.BACKWARD)[part.table.node]] = -1
    return SketchedRows(sketches, number)


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


def evidence_of(part: Part, sketched: SketchedRows | None) -> Evidence:
    """What the database keeps of a rank."""
    rows = rows_that_tell(part)
    numbers = np.zeros((len(rows), NUMBERS), dtype=np.float32)
    left_out = np.full(len(rows), -1, dtype=np.int64)
    if sketched is not None:
        known = np.flatnonzero(sketched.number[rows] >= 0)
        numbers[known] = sketched.numbers(rows[known])
        left_out[known] = sketched.left_out(rows[known])
    return Evidence(rows, numbers, left_out)
