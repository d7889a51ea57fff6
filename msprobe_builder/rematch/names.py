"""Finding nodes by the names that match files give."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable

from msprobe_builder.dump.names import Direction, Kind, Name, format_name, parse_name


def find_nodes(
    connection: sqlite3.Connection, names: Iterable[str]
) -> dict[str, list[tuple[int, int]]]:
    """``(graph_id, node_id)`` of every node of these names, by name."""
    wanted = set(names)
    stems = sorted({parse_name(name).stem for name in wanted} | wanted)
    rows = connection.execute(
        "SELECT graph_id, node_id, kind, text.value, direction, ifnull(call, 0)"
        " FROM text JOIN node ON stem_id = text_id"
        " WHERE text_id IN (SELECT text_id FROM text WHERE value IN"
        "  (SELECT value FROM json_each(?)))",
        (json.dumps(stems),),
    )
    found: dict[str, list[tuple[int, int]]] = {}
    for graph, node, kind, stem, direction, call in rows:
        name = format_name(Name(Kind(kind), stem, Direction(direction), call))
        if name in wanted:
            found.setdefault(name, []).append((graph, node))
    return found
