"""Which sketch each row of a parameter table has."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.graph.parameter_table import ParameterTable, SketchRows
from msprobe_builder.graph.recorded_places import places_in, shown
from msprobe_builder.graph.tree import Tree
from msprobe_builder.sketch.file import Sketches


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
