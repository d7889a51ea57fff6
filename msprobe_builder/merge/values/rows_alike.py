"""Which rows of the tables of several ranks are the same parameter of the same call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.side import Side

Int = NDArray[np.int64]


def common_rows(sides: Sequence[Side]) -> tuple[list[Int], list[str]]:
    """Rows of each rank that all ranks have, in the order of the first; names of the others."""
    keyed = [_rows_by_key(side) for side in sides]
    shared = [key for key in keyed[0] if all(key in other for other in keyed[1:])]
    common = set(shared)
    alone = sorted({key[0] for own in keyed for key in own if key not in common})
    return [np.array([own[key] for key in shared], dtype=np.int64) for own in keyed], alone


def _rows_by_key(side: Side) -> dict[tuple[str, int, int], int]:
    names = side.tree.names
    table: ParameterTable = side.table
    return {
        (names[node], section, name): row
        for row, (node, section, name) in enumerate(
            zip(table.node.tolist(), table.section.tolist(), table.name_id.tolist(), strict=True)
        )
    }
