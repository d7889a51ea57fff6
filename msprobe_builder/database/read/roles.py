"""What part a node plays in what went wrong, and who hands it on to whom."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from msprobe_builder.base.codes import CallRole, Strength
from msprobe_builder.database.read.cells import MAX_NODE, integer, number, text

MAX_LINKS = 50

_SUSPECT = """
SELECT step, rank, side, suspect.node_id - first_node, name, strength, cause, evidence, source,
       followers, suspect.error, expected
FROM suspect JOIN node USING (node_id) JOIN graph USING (graph_id) JOIN node_name USING (node_id)
WHERE suspect_id = ?
"""
_ROLE = "SELECT role, given, shown, expected, suspect_id, reason FROM role WHERE node_id = ?"
_FROM = """
SELECT giver_id, name, role FROM propagation JOIN node_name ON node_name.node_id = giver_id
LEFT JOIN role ON role.node_id = giver_id WHERE propagation.node_id = ? ORDER BY giver_id LIMIT ?
"""
_TO = """
SELECT propagation.node_id, name, role FROM propagation JOIN node_name USING (node_id)
LEFT JOIN role USING (node_id) WHERE giver_id = ? ORDER BY propagation.node_id LIMIT ?
"""


@dataclass(frozen=True)
class Origin:
    """The suspect that a node is or inherits from."""

    step: int
    rank: int
    side: int
    index: int
    name: str
    is_strong: bool
    cause: str
    evidence: str
    source: str
    followers: int
    error: float | None
    expected: float | None


@dataclass(frozen=True)
class ChainLink:
    """A neighbour on the way of what is wrong."""

    index: int
    name: str
    role: int


@dataclass(frozen=True)
class NodeVerdict:
    """What part one npu node plays."""

    role: int
    reason: str
    given: float | None
    shown: float | None
    expected: float | None
    suspect: Origin | None
    came_from: tuple[ChainLink, ...]
    went_to: tuple[ChainLink, ...]


def read_node_verdict(
    connection: sqlite3.Connection, first_node: int, node: int
) -> NodeVerdict | None:
    """What part an npu node plays; None without a verdict. A node without a row is clean."""
    if connection.execute("SELECT 1 FROM verdict LIMIT 1").fetchone() is None:
        return None
    row = connection.execute(_ROLE, (node,)).fetchone()
    if row is None:
        matched = connection.execute("SELECT 1 FROM match WHERE npu_node = ?", (node,)).fetchone()
        role = CallRole.UNKNOWN if matched is None else CallRole.CLEAN
        return NodeVerdict(int(role), "", None, None, None, None, (), ())
    role, given, shown, expected, suspect_id, reason = row
    return NodeVerdict(
        role=integer(role, 0, len(CallRole) - 1),
        reason=text(reason),
        given=number(given),
        shown=number(shown),
        expected=number(expected),
        suspect=None if suspect_id is None else _read_origin(connection, integer(suspect_id)),
        came_from=_links(connection, _FROM, node, first_node),
        went_to=_links(connection, _TO, node, first_node),
    )


def _links(
    connection: sqlite3.Connection, query: str, node: int, first_node: int
) -> tuple[ChainLink, ...]:
    return tuple(
        ChainLink(
            integer(other, first_node, MAX_NODE) - first_node,
            text(name),
            int(CallRole.CLEAN) if role is None else integer(role, 0, len(CallRole) - 1),
        )
        for other, name, role in connection.execute(query, (node, MAX_LINKS))
    )


def _read_origin(connection: sqlite3.Connection, suspect_id: int) -> Origin | None:
    row = connection.execute(_SUSPECT, (suspect_id,)).fetchone()
    if row is None:
        return None
    return Origin(
        step=integer(row[0]),
        rank=integer(row[1]),
        side=integer(row[2], 0, 1),
        index=integer(row[3]),
        name=text(row[4]),
        is_strong=integer(row[5], 0, len(Strength) - 1) == Strength.STRONG,
        cause=text(row[6]),
        evidence=text(row[7]),
        source=text(row[8]),
        followers=integer(row[9]),
        error=number(row[10]),
        expected=number(row[11]),
    )
