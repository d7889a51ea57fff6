"""What automatic matching found."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from msprobe_builder.base.codes import Direction, Kind
from msprobe_builder.database.read.cells import text
from msprobe_builder.database.read.groups import count_groups


@dataclass(frozen=True)
class AlignmentFacts:
    """Counts of npu nodes; ``modules`` are the names without calls of modules of the first graph
    and of their partners."""

    nodes: int
    matched: int
    by_evidence: int
    groups: int
    grouped: int
    modules: set[tuple[str, str]]


def read_alignment(connection: sqlite3.Connection) -> AlignmentFacts:
    """Of all steps and ranks together."""
    [[matched, found]] = connection.execute("SELECT count(*), count(evidence) FROM match")
    groups, grouped = count_groups(connection)
    [[nodes]] = connection.execute("SELECT ifnull(sum(node_count), 0) FROM graph WHERE side = 0")
    modules = _matched_modules(connection) if found or groups else set()
    return AlignmentFacts(nodes, matched, found, groups, grouped, modules)


def _matched_modules(connection: sqlite3.Connection) -> set[tuple[str, str]]:
    rows = connection.execute(
        "SELECT DISTINCT own.value, other.value FROM graph"
        " JOIN node AS npu ON npu.graph_id = graph.graph_id AND npu.kind = ?"
        "  AND npu.direction = ?"
        " JOIN match ON npu_node = npu.node_id JOIN node AS bench ON bench.node_id = bench_node"
        " JOIN text AS own ON own.text_id = npu.stem_id"
        " JOIN text AS other ON other.text_id = bench.stem_id"
        " WHERE graph.graph_id = (SELECT graph_id FROM graph WHERE side = 0"
        "  ORDER BY step, rank LIMIT 1)",
        (int(Kind.MODULE), int(Direction.FORWARD)),
    )
    return {(text(own), text(other)) for own, other in rows}
