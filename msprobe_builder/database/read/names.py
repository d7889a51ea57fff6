"""Names of nodes: the grammar of stem, direction and call, and names of many nodes at once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from functools import lru_cache

from msprobe_builder.base.codes import Direction, Kind
from msprobe_builder.database.problems import DamagedError
from msprobe_builder.database.read.cells import integer, optional_integer, text
from msprobe_builder.dump.names import Name, format_name, parse_name

_KINDS, _DIRECTIONS = tuple(Kind), tuple(Direction)  # by their numbers
_KEPT = 4096  # a call mostly has the name of its partner
# The grammar in SQL, of a node joined with the text of its stem; that of view ``node_name``.
NAME_SQL = (
    "CASE WHEN direction = 0 THEN text.value WHEN kind = 1"
    " THEN text.value || '.' || ifnull(call, 0) || iif(direction = 1, '.forward', '.backward')"
    " ELSE text.value || iif(direction = 1, '.forward.', '.backward.') || ifnull(call, 0) END"
)


@lru_cache(maxsize=_KEPT, typed=True)
def stored_name(kind: object, stem: object, direction: object, call: object) -> str:
    """The name in the dump of a node with these columns."""
    return format_name(
        Name(
            _KINDS[integer(kind, 0, len(_KINDS) - 1)],
            text(stem),
            _DIRECTIONS[integer(direction, 0, len(_DIRECTIONS) - 1)],
            optional_integer(call) or 0,
        )
    )


def read_names(connection: sqlite3.Connection, nodes: Iterable[int]) -> dict[int, str]:
    """Name of each node by its id."""
    wanted = sorted(set(nodes))
    rows = connection.execute(
        "SELECT node_id, kind, text.value, direction, call FROM json_each(?) AS wanted"
        " JOIN node ON node_id = wanted.value JOIN text ON text_id = stem_id",
        (json.dumps(wanted),),
    )
    names = {node: stored_name(*columns) for node, *columns in rows}
    if len(names) < len(wanted):
        raise DamagedError("a node or its name is missing")
    return names


def find_nodes(
    connection: sqlite3.Connection, names: Iterable[str]
) -> dict[str, list[tuple[int, int]]]:
    """``(graph_id, node_id)`` of every node of these names, by name."""
    wanted = set(names)
    stems = sorted({parse_name(name).stem for name in wanted} | wanted)
    rows = connection.execute(
        "SELECT graph_id, node_id, kind, text.value, direction, call"
        " FROM text JOIN node ON stem_id = text_id"
        " WHERE text_id IN (SELECT text_id FROM text WHERE value IN"
        "  (SELECT value FROM json_each(?)))",
        (json.dumps(stems),),
    )
    found: dict[str, list[tuple[int, int]]] = {}
    for graph, node, *columns in rows:
        name = stored_name(*columns)
        if name in wanted:
            found.setdefault(name, []).append((integer(graph), node))
    return found


def forward_modules(connection: sqlite3.Connection, graph_id: int) -> dict[str, str]:
    """Name of the first forward call of each module of a graph, by its stem."""
    rows = connection.execute(
        f"SELECT text.value, {NAME_SQL} FROM node JOIN text ON text_id = stem_id"
        " WHERE graph_id = ? AND kind = 0 AND direction = 1 ORDER BY node_id DESC",
        (graph_id,),
    )
    return {text(stem): text(name) for stem, name in rows}
