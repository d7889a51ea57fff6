"""Where a node stands: what lies above it, and what runs before and after it."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass

from msprobe_builder.base.codes import CallRole, Grade
from msprobe_builder.database.read.cells import integer, number
from msprobe_builder.database.read.names import read_names
from msprobe_builder.database.read.tree import read_ancestors


@dataclass(frozen=True)
class PlaceRow:
    """A node in the picture of a place; the root has depth 0."""

    depth: int
    name: str
    grade: Grade
    error: float | None
    is_it: bool
    role: int | None = None  # of base.codes.CallRole; None where nothing was judged


def read_around(connection: sqlite3.Connection, node: int, beside: int = 4) -> list[PlaceRow]:
    """The modules around ``node``, outermost first, and at most ``beside`` siblings on either side.

    Raises DamagedError where a node or its name is missing.
    """
    parent = read_ancestors(connection, [node])
    path: list[int] = []
    above = node
    while above in parent:
        above = parent[above]
        path.insert(0, above)
    siblings = [node]
    if path:
        rows = connection.execute(
            "SELECT node_id FROM node WHERE parent_id = ? ORDER BY node_id", (path[-1],)
        )
        siblings = [integer(row[0]) for row in rows]
    at = siblings.index(node)
    shown = [*path, *siblings[max(0, at - beside) : at + beside + 1]]
    grades = {
        row[0]: (Grade(integer(row[1], 0, len(Grade) - 1)), number(row[2]), _role(row[3]))
        for row in connection.execute(
            "SELECT node_id, grade, error,"
            " iif(side = 0 AND EXISTS (SELECT 1 FROM verdict), coalesce(role, :clean), NULL)"
            " FROM json_each(:shown) AS wanted JOIN node ON node_id = wanted.value"
            " JOIN graph USING (graph_id) LEFT JOIN role USING (node_id)",
            {"shown": json.dumps(shown), "clean": int(CallRole.CLEAN)},
        )
    }
    names = read_names(connection, shown)
    return [
        PlaceRow(min(place, len(path)), names[one], grade, error, one == node, role)
        for place, one in enumerate(shown)
        for grade, error, role in [grades[one]]
    ]


def _role(value: object) -> int | None:
    return None if value is None else integer(value, 0, len(CallRole) - 1)
