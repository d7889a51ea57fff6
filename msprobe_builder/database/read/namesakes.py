"""The calls of one name: their numbers and nodes in a graph."""

from __future__ import annotations

import sqlite3

from msprobe_builder.base.codes import Kind
from msprobe_builder.database.read.cells import integer, optional_integer
from msprobe_builder.database.read.graphs import Graph


def kind_and_call(connection: sqlite3.Connection, node: int) -> tuple[Kind, int | None]:
    """What a node is, and which call of its name."""
    [(kind, call)] = connection.execute("SELECT kind, call FROM node WHERE node_id = ?", (node,))
    return Kind(integer(kind, 0, len(Kind) - 1)), optional_integer(call)


def calls_of_name(connection: sqlite3.Connection, node: int, graph: Graph) -> dict[int | None, int]:
    """The nodes of a graph that are named like ``node``, by the number of the call."""
    # By the range of the graph: by its number all nodes of the file would be read.
    rows = connection.execute(
        "SELECT one.node_id, one.call FROM node AS asked JOIN node AS one"
        " ON +one.stem_id = asked.stem_id AND one.direction IS asked.direction"
        " AND one.kind = asked.kind WHERE asked.node_id = ? AND one.node_id BETWEEN ? AND ?",
        (node, graph.first, graph.last),
    )
    return {optional_integer(call): integer(one) for one, call in rows}
