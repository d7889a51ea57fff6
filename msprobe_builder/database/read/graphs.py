"""Where the nodes of each step, rank and side lie."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from msprobe_builder.base.codes import SIDES
from msprobe_builder.database.problems import DamagedError
from msprobe_builder.database.read.cells import MAX_NODE, integer, optional_text, text

NPU, BENCH = range(len(SIDES))

_GRAPH = (
    "SELECT graph_id, step, rank, side, first_node, node_count, level, dump_dir, tensor_dir"
    " FROM graph"
)


@dataclass(frozen=True)
class Graph:
    """One side of one step and rank: a range of node ids in execution order, the root first."""

    graph_id: int
    step: int
    rank: int
    side: int
    first: int
    count: int
    level: str = ""  # of the dump; empty where it does not say
    dump_dir: str = ""
    tensor_dir: str | None = None

    @property
    def last(self) -> int:
        """Id of the last node."""
        return self.first + self.count - 1

    def __contains__(self, node: int) -> bool:
        return self.first <= node <= self.last


def read_graphs(connection: sqlite3.Connection) -> list[Graph]:
    """All graphs of a file by step, rank and side."""
    return list(_graphs(connection.execute(f"{_GRAPH} ORDER BY step, rank, side")))


def has_reference(connection: sqlite3.Connection) -> bool:
    """Whether a file compares two runs."""
    return connection.execute("SELECT 1 FROM graph WHERE side = 1").fetchone() is not None


def find_graph(connection: sqlite3.Connection, step: int, rank: int, side: int) -> Graph | None:
    """The graph of one side, None when the file has none."""
    rows = connection.execute(
        f"{_GRAPH} WHERE step = ? AND rank = ? AND side = ?", (step, rank, side)
    )
    graph = next(_graphs(rows), None)
    if graph is not None:
        # Columns of this many nodes are made next: believe no number that rows do not bear out.
        ends = {graph.first, graph.last}
        query = "SELECT count(*) FROM node WHERE node_id IN (?, ?)"
        [[found]] = connection.execute(query, (graph.first, graph.last))
        if found != len(ends):
            raise DamagedError(f"the first or last of {graph.count} nodes of a graph is missing")
    return graph


def other_side(connection: sqlite3.Connection, graph: Graph) -> Graph | None:
    """The graph of the other side of the same step and rank, None when there is none."""
    return find_graph(connection, graph.step, graph.rank, NPU if graph.side == BENCH else BENCH)


def last_inside(connection: sqlite3.Connection, graph: Graph, node: int) -> int:
    """Id of the last node inside a node; the node itself when it holds none."""
    row = connection.execute("SELECT subtree_end FROM node WHERE node_id = ?", (node,)).fetchone()
    if row is None:
        raise DamagedError(f"node {node} is missing")
    return integer(row[0], node, graph.last)


def _graphs(rows: Iterable[tuple[object, ...]]) -> Iterator[Graph]:
    for graph_id, step, rank, side, first, count, level, dump_dir, tensor_dir in rows:
        yield Graph(
            integer(graph_id),
            integer(step),
            integer(rank),
            integer(side, NPU, BENCH),
            integer(first, 0, MAX_NODE),
            integer(count, 1),
            text(level),
            text(dump_dir),
            optional_text(tensor_dir),
        )
