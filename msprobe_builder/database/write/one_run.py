"""Writing what a run without a reference is checked by, and what does not hold."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

import numpy as np

from msprobe_builder.base.texts import Texts
from msprobe_builder.database.write.rows import OrNull, insert_rows
from msprobe_builder.dump.flow_layout import Maker
from msprobe_builder.facts.fact import Facts, encode
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.invariants.evidence import Evidence
from msprobe_builder.invariants.violation import Violation

_ROOT_NODE = 1
_NEXT_PLACE = """
INSERT INTO suspect (node_id, place, strength, cause, error, expected, followers, source, evidence,
    ranks)
SELECT :node, 1 + (SELECT count(*) FROM suspect JOIN node USING (node_id) WHERE graph_id = (
    SELECT graph_id FROM node WHERE node_id = :node)), :strength, :cause, :error, :expected, 0,
    :source, :evidence, :ranks
"""


def write_evidence(
    connection: sqlite3.Connection, table: ParameterTable, evidence: Evidence, texts: Texts
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
    sketches = [
        numbers.tobytes() if left_out >= 0 else None
        for numbers, left_out in zip(evidence.numbers, evidence.left_out.tolist(), strict=True)
    ]
    insert_rows(
        connection,
        "evidence",
        [
            table.node[rows] + _ROOT_NODE,
            table.ordinal[rows],
            sketches,
            OrNull(evidence.left_out, -1),
            OrNull(kind, 0),
            OrNull(np.where(is_made, table.node[maker] + _ROOT_NODE, 0), 0),
            OrNull(np.where(is_made, table.ordinal[maker], -1), -1),
            OrNull(name, 0),
        ],
    )


def write_place(
    connection: sqlite3.Connection, step: int, rank: int, said: Facts, checked: int
) -> None:
    """Store what was checked of one rank alone, which is not yet a verdict."""
    connection.execute(
        "INSERT INTO verdict (step, rank, conclusion, sentence, compared) VALUES (?, ?, ?, ?, ?)",
        (step, rank, "undecided", encode(said), checked),
    )


def add_suspects(
    connection: sqlite3.Connection,
    violations: Iterable[tuple[Violation, str | None]],
    first_node: int = 0,
) -> None:
    """Store what does not hold, behind the suspects of its step and rank, with its source line."""
    for one, source in violations:
        connection.execute(
            _NEXT_PLACE,
            {
                "node": one.node + first_node,
                "strength": int(one.strength),
                "cause": one.check.value,
                "error": one.error,
                "expected": one.expected,
                "source": source,
                "evidence": encode(one.evidence),
                "ranks": ",".join(map(str, one.ranks)) or None,
            },
        )
