"""Writing the sketches that are compared between ranks and between steps."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import numpy as np

from msprobe_builder.base.texts import Texts
from msprobe_builder.database.write.rows import OrNull, insert_rows
from msprobe_builder.dump.flow_layout import Maker
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.sketch_rows import SketchedRows

_ROOT_NODE = 1


def write_evidence(
    connection: sqlite3.Connection, table: ParameterTable, evidence: SketchedRows, texts: Texts
) -> None:
    """Store sketches and makers of some rows of the one graph of a database."""
    rows, origins = evidence.row, table.origins
    count = len(rows)
    maker = np.full(count, -1, dtype=np.int64)
    kind, name = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    if origins is not None:
        maker = origins.maker[rows]
        kind = origins.kind[rows].astype(np.int64)
        kind[maker >= 0] = Maker.RECORD
        of_text = np.array([*(texts.id(one) + 1 for one in origins.names), 0])
        name = of_text[origins.name[rows]]
    is_made = maker >= 0
    insert_rows(
        connection,
        "evidence",
        [
            table.node[rows] + _ROOT_NODE,
            table.ordinal[rows],
            _stored(evidence),
            OrNull(evidence.left_out, -1),
            OrNull(kind, 0),
            OrNull(np.where(is_made, table.node[maker] + _ROOT_NODE, 0), 0),
            OrNull(np.where(is_made, table.ordinal[maker], -1), -1),
            OrNull(name, 0),
        ],
    )


def write_weights(
    connection: sqlite3.Connection,
    table: ParameterTable,
    weights: SketchedRows,
    names: Sequence[str],
    first_node: int,
    texts: Texts,
) -> None:
    """Store weights as a step begins with them, under the names that tell them in other steps."""
    count = len(weights.row)
    nothing = np.zeros(count, dtype=np.int64)
    insert_rows(
        connection,
        "evidence",
        [
            table.node[weights.row] + first_node,
            table.ordinal[weights.row],
            _stored(weights),
            OrNull(weights.left_out, -1),
            nothing + int(Maker.PARAMETER),
            OrNull(nothing, 0),
            OrNull(nothing, 0),
            [texts.id(one) + 1 for one in names],
        ],
    )


def _stored(evidence: SketchedRows) -> list[bytes | None]:
    return [
        numbers.tobytes() if left_out >= 0 else None
        for numbers, left_out in zip(evidence.numbers, evidence.left_out.tolist(), strict=True)
    ]
