"""Who is matched with whom."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable

from msprobe_builder.base.codes import Kind
from msprobe_builder.database.read.cells import MAX_NODE, integer
from msprobe_builder.database.read.names import read_names

_COLUMNS = (("npu_node", "bench_node"), ("bench_node", "npu_node"))  # own and partner, by side


def partner_of(connection: sqlite3.Connection, side: int, node: int) -> int | None:
    """The node of the other side that one of ``side`` is matched with."""
    own, partner = _COLUMNS[side]
    row = connection.execute(f"SELECT {partner} FROM match WHERE {own} = ?", (node,)).fetchone()
    return None if row is None else integer(row[0], 0, MAX_NODE)


def partners_of(connection: sqlite3.Connection, side: int, nodes: Iterable[int]) -> dict[int, int]:
    """Partner of each of the nodes of one side that has one."""
    own, partner = _COLUMNS[side]
    rows = connection.execute(
        f"SELECT {own}, {partner} FROM json_each(?) AS wanted JOIN match ON {own} = wanted.value",
        (json.dumps(sorted(set(nodes))),),
    )
    return {node: integer(other, 0, MAX_NODE) for node, other in rows}


def matches_between(
    connection: sqlite3.Connection, side: int, first: int, last: int
) -> list[tuple[int, int]]:
    """Npu and bench node of each match with an end on ``side`` from ``first`` to ``last``."""
    own, _ = _COLUMNS[side]
    rows = connection.execute(
        f"SELECT npu_node, bench_node FROM match WHERE {own} BETWEEN ? AND ? ORDER BY npu_node",
        (first, last),
    )
    return [(integer(npu, 0, MAX_NODE), integer(bench, 0, MAX_NODE)) for npu, bench in rows]


def matches_below(connection: sqlite3.Connection, npu: int, bench: int) -> list[tuple[int, int]]:
    """Matches of nodes below one npu node with nodes below one bench node."""
    rows = connection.execute(
        "SELECT npu_node, bench_node FROM match, node AS own, node AS other"
        " WHERE own.node_id = ? AND other.node_id = ?"
        " AND npu_node > own.node_id AND npu_node <= own.subtree_end"
        " AND bench_node > other.node_id AND bench_node <= other.subtree_end ORDER BY npu_node",
        (npu, bench),
    )
    return [(integer(one, 0, MAX_NODE), integer(other, 0, MAX_NODE)) for one, other in rows]


def matched_neighbours(
    connection: sqlite3.Connection, side: int, nodes: range, before: int, behind: int
) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """The last match at or before one node and the first behind another, own node first.

    Both are looked for among ``nodes`` of one side.
    """
    own, partner = _COLUMNS[side]
    query = f"SELECT {own}, {partner} FROM match WHERE {own} BETWEEN ? AND ? ORDER BY {own}"
    above = connection.execute(f"{query} DESC LIMIT 1", (nodes.start, before)).fetchone()
    below = connection.execute(f"{query} LIMIT 1", (behind + 1, nodes.stop - 1)).fetchone()
    return above, below


def matched_names(connection: sqlite3.Connection, kind: Kind) -> list[tuple[str, str]]:
    """Names of matched npu nodes of a kind and of their partners, in order of execution."""
    rows = connection.execute(
        "SELECT npu_node, bench_node FROM match JOIN node ON node_id = npu_node"
        " JOIN graph USING (graph_id) WHERE kind = ? ORDER BY node_id - first_node, graph_id",
        (int(kind),),
    ).fetchall()
    names = read_names(connection, {node for pair in rows for node in pair})
    return [(names[npu], names[bench]) for npu, bench in rows]
