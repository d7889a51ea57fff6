"""Which sketch each row of a parameter table has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.graph.parameter_table import ParameterTable, SketchRows
from msprobe_builder.graph.recorded_places import places_in, shown
from msprobe_builder.graph.tree import Tree
from msprobe_builder.sketch.definition import NUMBERS
from msprobe_builder.sketch.file import Sketches

Int = NDArray[np.int64]


@dataclass(frozen=True)
class SketchedRows:
    """Rows of a table with what sketches hold of them; one element per row.

    ``numbers`` has shape (n, NUMBERS); ``left_out`` are NaN and infinities, -1 without a sketch.
    """

    row: Int
    numbers: NDArray[np.float32]
    left_out: Int


def sketched_rows(table: ParameterTable, rows: Int) -> SketchedRows:
    """The sketches of some rows, read from where they lie."""
    numbers = np.zeros((len(rows), NUMBERS), dtype=np.float32)
    left_out = np.full(len(rows), -1, dtype=np.int64)
    if table.sketched is not None:
        known = np.flatnonzero(table.sketched.row[rows] >= 0)
        found = table.sketched.sketches.rows(table.sketched.row[rows[known]])
        numbers[known] = found["numbers"]
        left_out[known] = found["nans"].astype(np.int64) + found["infinities"]
    return SketchedRows(rows, numbers, left_out)


def sketch_rows(
    tree: Tree, table: ParameterTable, sketches: Sketches, *, by_argument: bool
) -> SketchRows:
    """The sketches of the rows of a table; places that name no tensor of it are left out.

    ``by_argument`` says that the table shows gradients by argument where the dump has them.
    """
    places = shown(sketches.places, by_argument=by_argument)
    rows = places_in(tree, table).of(places["record"], places["section"], places["position"])
    found: NDArray[Any] = np.full(len(table), -1, dtype=np.int32)
    found[rows[rows >= 0]] = places["row"][rows >= 0]
    return SketchRows(sketches._replace(places=sketches.places[:0].copy()), found)
