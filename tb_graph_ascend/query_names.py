"""Names of many nodes at once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable

from tb_graph_ascend.cells import integer, optional_integer, text
from tb_graph_ascend.database import DamagedError

KIND_API = 1


def node_name(kind: int, stem: str, direction: int, call: int) -> str:
    """The name in the dump: an API counts its calls before the direction, a module after it."""
    if direction == 0:
        return stem
    word = ("forward", "backward")[direction - 1]
    return f"{stem}.{call}.{word}" if kind == KIND_API else f"{stem}.{word}.{call}"


def read_names(connection: sqlite3.Connection, nodes: Iterable[int]) -> dict[int, str]:
    """Name of each node by its id."""
    wanted = sorted(set(nodes))
    rows = connection.execute(
        "SELECT node_id, kind, text.value, direction, call FROM json_each(?) AS wanted"
        " JOIN node ON node_id = wanted.value JOIN text ON text_id = stem_id",
        (json.dumps(wanted),),
    )
    names = {
        node: node_name(
            integer(kind, 0, 2),
            text(stem),
            integer(direction, 0, 2),
            optional_integer(call) or 0,
        )
        for node, kind, stem, direction, call in rows
    }
    if len(names) < len(wanted):
        raise DamagedError("a node or its name is missing")
    return names
