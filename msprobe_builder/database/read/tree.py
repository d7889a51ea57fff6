"""The hierarchy: subtrees, what lies above nodes, the calls of the other direction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable

from msprobe_builder.base.codes import Grade, Kind
from msprobe_builder.database.problems import DamagedError
from msprobe_builder.database.read.cells import MAX_NODE, integer
from msprobe_builder.database.read.graphs import Graph


def read_subtree(connection: sqlite3.Connection, node: int) -> range:
    """Ids of a node and of all below it, which must be there."""
    row = connection.execute("SELECT subtree_end FROM node WHERE node_id = ?", (node,)).fetchone()
    if row is None:
        raise DamagedError(f"node {node} is missing")
    end = integer(row[0], node, MAX_NODE)
    query = "SELECT count(*) FROM node WHERE node_id BETWEEN ? AND ?"
    [[count]] = connection.execute(query, (node, end))
    if count != end - node + 1:
        raise DamagedError(f"node {node} has {count} nodes up to {end}")
    return range(node, end + 1)


def read_ancestors(connection: sqlite3.Connection, nodes: Iterable[int]) -> dict[int, int]:
    """Parent of each node and of all their ancestors; the roots have none."""
    parent: dict[int, int] = {}
    wanted = set(nodes)
    while wanted:
        rows = connection.execute(
            "SELECT node_id, parent_id FROM json_each(?) AS wanted"
            " JOIN node ON node_id = wanted.value WHERE parent_id IS NOT NULL",
            (json.dumps(sorted(wanted)),),
        )
        # A parent stands before its children, so this ends.
        found = {node: integer(above, 0, node - 1) for node, above in rows}
        parent |= found
        wanted = set(found.values()) - parent.keys()
    return parent


def of_micro_step(connection: sqlite3.Connection, nodes: Iterable[int], micro: int) -> set[int]:
    """Those of the nodes that ran in this micro-step."""
    rows = connection.execute(
        "SELECT node_id FROM json_each(?) AS wanted JOIN node ON node_id = wanted.value"
        " WHERE micro_step = ?",
        (json.dumps(sorted(nodes)), micro),
    )
    return {integer(node, 0, MAX_NODE) for (node,) in rows}


def read_collections(connection: sqlite3.Connection, nodes: Iterable[int]) -> dict[int, int]:
    """Collections of the npu side among the nodes, with the last node of each."""
    rows = connection.execute(
        "SELECT node_id, subtree_end FROM json_each(?) AS wanted"
        " JOIN node ON node_id = wanted.value JOIN graph USING (graph_id)"
        " WHERE kind = ? AND side = 0",
        (json.dumps(sorted(nodes)), int(Kind.COLLECTION)),
    )
    return {node: integer(end, node, MAX_NODE) for node, end in rows}


def read_twins(
    connection: sqlite3.Connection, graph: Graph, nodes: Iterable[int]
) -> dict[int, int]:
    """The call of the other direction of each node that has one: backward of forward."""
    rows = connection.execute(
        "WITH own AS MATERIALIZED (SELECT node_id, kind, stem_id, direction, call"
        "  FROM json_each(?) AS wanted JOIN node ON node_id = wanted.value WHERE direction > 0)"
        " SELECT own.node_id, twin.node_id FROM node AS twin JOIN own"
        "  ON own.stem_id = twin.stem_id AND own.kind = twin.kind AND own.call = twin.call"
        "  AND own.direction + twin.direction = 3"
        " WHERE twin.node_id BETWEEN ? AND ? AND twin.stem_id IN (SELECT stem_id FROM own)",
        (json.dumps(sorted(set(nodes))), graph.first, graph.last),
    )
    return dict(rows)


def read_grades(connection: sqlite3.Connection, nodes: Iterable[int]) -> dict[int, int]:
    """Grade of each of the nodes that are there."""
    rows = connection.execute(
        "SELECT node_id, grade FROM json_each(?) AS wanted JOIN node ON node_id = wanted.value",
        (json.dumps(sorted(nodes)),),
    )
    return {node: integer(grade, 0, len(Grade) - 1) for node, grade in rows}
