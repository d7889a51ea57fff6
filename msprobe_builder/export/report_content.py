"""What a report says, read from a database."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

from msprobe_builder.database.read.verdict import Verdict, read_verdict

Row = sqlite3.Row

_PLACES = """
SELECT graph.step, graph.rank, side, node_count, own.grade AS own_grade, rollup.*
FROM graph JOIN node AS own ON own.node_id = first_node
LEFT JOIN rollup ON rollup.node_id = first_node ORDER BY graph.step, graph.rank, side
"""
_NODES = "SELECT node_view.*, stack_id FROM node_view JOIN node USING (node_id)"
_PATH = """
WITH RECURSIVE above(node_id, parent_id) AS (
    SELECT node_id, parent_id FROM node WHERE node_id = ?
    UNION ALL
    SELECT node.node_id, node.parent_id FROM node JOIN above ON node.node_id = above.parent_id
)
SELECT name FROM above JOIN node_name USING (node_id) ORDER BY node_id
"""
_STACK = """
SELECT file.value AS file, line, function.value AS function, source.value AS source
FROM stack JOIN frame USING (frame_id)
LEFT JOIN text AS file ON file.text_id = file_id
LEFT JOIN text AS function ON function.text_id = function_id
LEFT JOIN text AS source ON source.text_id = source_id
WHERE stack_id = ? ORDER BY depth
"""
_UNMATCHED = """
SELECT node_view.side, node_view.step, node_view.rank, node_view.name, unmatched_reason,
       candidate.name AS candidate, detail
FROM unmatched JOIN node_view USING (node_id)
LEFT JOIN node_name AS candidate ON candidate.node_id = candidate_id
ORDER BY unmatched.node_id LIMIT ?
"""


@dataclass(frozen=True)
class Finding:
    """One node with its place, tensors and call stack."""

    node: Row
    path: list[str]  # names of the ancestors and its own
    tensors: list[Row]
    bench_tensors: dict[str, Row]  # by name
    stack: list[Row]


@dataclass(frozen=True)
class Content:
    """Everything a report shows."""

    meta: dict[str, str]
    bands: list[Row]
    places: list[Row]
    worst: list[Finding]
    overflowing: list[Finding]
    reasons: list[Row]
    unmatched: list[Row]
    diagnostics: list[Row]
    verdict: Verdict | None


def read_report(connection: sqlite3.Connection, nodes: int) -> Content:
    """The content of a report with at most ``nodes`` nodes of each kind."""
    verdict = read_verdict(connection)
    connection.row_factory = sqlite3.Row
    rows = connection.execute
    wrong = f"{_NODES} WHERE node.grade > 1 AND node.grade < 6 AND side = 'npu'"
    return Content(
        meta={row["key"]: row["value"] or "" for row in rows("SELECT * FROM meta")},
        bands=rows("SELECT * FROM grade ORDER BY grade").fetchall(),
        places=rows(_PLACES).fetchall(),
        worst=_findings(
            connection, f"{wrong} ORDER BY node.error DESC, node.node_id LIMIT ?", nodes
        ),
        overflowing=_findings(
            connection,
            f"{_NODES} WHERE node.overflow IS NOT NULL ORDER BY node.overflow DESC, node.node_id"
            " LIMIT ?",
            nodes,
        ),
        reasons=rows(
            "SELECT side, unmatched_reason.name AS reason, count(*) AS count FROM unmatched"
            " JOIN unmatched_reason USING (reason) JOIN node USING (node_id)"
            " JOIN graph USING (graph_id) GROUP BY side, reason ORDER BY count DESC"
        ).fetchall(),
        unmatched=rows(_UNMATCHED, (5 * nodes,)).fetchall(),
        verdict=verdict,
        diagnostics=rows("SELECT * FROM diagnostic ORDER BY diagnostic_id LIMIT 200").fetchall(),
    )


def _findings(connection: sqlite3.Connection, query: str, nodes: int) -> list[Finding]:
    return [_finding(connection, row) for row in connection.execute(query, (nodes,)).fetchall()]


def _finding(connection: sqlite3.Connection, node: Row) -> Finding:
    def rows(query: str, *bound: Any) -> list[Row]:
        return connection.execute(query, bound).fetchall()

    tensors = "SELECT * FROM tensor_view WHERE node_id = ? ORDER BY ordinal"
    partner = rows("SELECT bench_node FROM match WHERE npu_node = ?", node["node_id"])
    bench = rows(tensors, partner[0]["bench_node"]) if partner else []
    return Finding(
        node=node,
        path=[row["name"] for row in rows(_PATH, node["node_id"])],
        tensors=rows(tensors, node["node_id"]),
        bench_tensors={row["name"]: row for row in bench},
        stack=rows(_STACK, node["stack_id"]),
    )
