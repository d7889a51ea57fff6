"""Which nodes are worst, which overflow, which have no partner and why."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from msprobe_builder.base.codes import SIDES, Grade
from msprobe_builder.database.read.cells import MAX_NODE, integer, number, text
from msprobe_builder.database.read.names import read_names, stored_name

_WRONG = (
    "SELECT node_id, graph_id FROM node JOIN graph USING (graph_id)"
    f" WHERE grade > {int(Grade.OK)} AND grade < {int(Grade.UNMATCHED)} AND side = 0"
)
_OVERFLOWING = (
    "SELECT node_id, graph_id FROM node WHERE overflow IS NOT NULL"
    " ORDER BY overflow DESC, node_id LIMIT ?"
)


@dataclass(frozen=True)
class UnmatchedNode:
    """A node without a partner, why, and the node of the other side that came nearest."""

    side: str
    step: int
    rank: int
    name: str
    reason: str
    candidate: str
    detail: str


@dataclass(frozen=True)
class ReasonCount:
    """How many nodes of one side have no partner for one reason."""

    side: str
    reason: str
    count: int


@dataclass(frozen=True)
class WrongNode:
    """A node that is graded worse than ok."""

    step: int
    rank: int
    name: str
    grade: Grade
    error: float | None


def worst_nodes(connection: sqlite3.Connection, limit: int) -> list[tuple[int, int]]:
    """``(node_id, graph_id)`` of the npu nodes with the largest errors, the largest first."""
    return _pairs(connection, f"{_WRONG} ORDER BY node.error DESC, node_id LIMIT ?", limit)


def first_wrong_node(connection: sqlite3.Connection) -> tuple[int, int] | None:
    """``(node_id, graph_id)`` of the first npu call of moderate or worse, by step, rank and order.

    Modules around it are no call: the first without such a node inside.
    """
    found = _pairs(
        connection,
        f"SELECT node_id, graph_id FROM ({_WRONG} AND grade >= {int(Grade.MODERATE)})"
        " JOIN node USING (node_id, graph_id) JOIN graph USING (graph_id)"
        " ORDER BY step, rank, node_id = subtree_end DESC, node_id LIMIT ?",
        1,
    )
    return found[0] if found else None


def overflowing_nodes(connection: sqlite3.Connection, limit: int) -> list[tuple[int, int]]:
    """``(node_id, graph_id)`` of the nodes with the highest overflow levels."""
    return _pairs(connection, _OVERFLOWING, limit)


def read_wrong_nodes(connection: sqlite3.Connection) -> list[WrongNode]:
    """All npu nodes that are graded worse than ok, in order of execution."""
    rows = connection.execute(
        "SELECT step, rank, kind, value, direction, call, grade, error"
        f" FROM ({_WRONG}) JOIN node USING (node_id, graph_id) JOIN graph USING (graph_id)"
        " JOIN text ON text_id = stem_id ORDER BY step, rank, node_id"
    )
    return [
        WrongNode(
            integer(step),
            integer(rank),
            stored_name(kind, stem, direction, call),
            Grade(integer(grade, 0, len(Grade) - 1)),
            number(error),
        )
        for step, rank, kind, stem, direction, call, grade, error in rows
    ]


def read_reasons(connection: sqlite3.Connection) -> list[ReasonCount]:
    """Why nodes have no partner, the most frequent reason first."""
    rows = connection.execute(
        "SELECT side, unmatched_reason.name AS reason, count(*) AS count FROM unmatched"
        " JOIN unmatched_reason USING (reason) JOIN node USING (node_id)"
        " JOIN graph USING (graph_id) GROUP BY side, reason ORDER BY count DESC"
    )
    return [
        ReasonCount(SIDES[integer(side, 0, 1)], text(reason), integer(count))
        for side, reason, count in rows
    ]


def read_unmatched(connection: sqlite3.Connection, limit: int) -> list[UnmatchedNode]:
    """The first nodes without a partner."""
    rows = connection.execute(
        "SELECT node_id, side, step, rank, unmatched_reason.name, candidate_id, detail"
        " FROM unmatched LEFT JOIN unmatched_reason USING (reason) JOIN node USING (node_id)"
        " JOIN graph USING (graph_id) ORDER BY node_id LIMIT ?",
        (limit,),
    ).fetchall()
    names = read_names(connection, {node for row in rows for node in (row[0], row[5]) if node})
    return [
        UnmatchedNode(
            SIDES[integer(side, 0, 1)],
            integer(step),
            integer(rank),
            names[node],
            text(reason),
            names.get(candidate, ""),
            text(detail),
        )
        for node, side, step, rank, reason, candidate, detail in rows
    ]


def _pairs(connection: sqlite3.Connection, query: str, limit: int) -> list[tuple[int, int]]:
    rows = connection.execute(query, (limit,))
    return [(integer(node, 0, MAX_NODE), integer(graph)) for node, graph in rows]
