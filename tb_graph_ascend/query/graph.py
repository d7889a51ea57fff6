"""Where the nodes of one side of one rank of one step lie."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from msprobe_builder.database.problems import DamagedError
from msprobe_builder.database.read.cells import MAX_NODE, integer
from tb_graph_ascend.problems import not_found

NPU, BENCH = 0, 1
SIDE_NAMES = ("npu", "bench")


@dataclass(frozen=True)
class Graph:
    """A range of nodes in execution order."""

    side: int
    first_node: int
    node_count: int

    @property
    def last_node(self) -> int:
        """The id of the last node in execution order."""
        return self.first_node + self.node_count - 1


def read_graph(connection: sqlite3.Connection, step: int, rank: int, side: int) -> Graph:
    """The graph of one side; 404 when the file has none."""
    graph = find_graph(connection, step, rank, side)
    if graph is None:
        raise not_found(
            "unknown_graph",
            f"The file holds no graph of step {step}, rank {rank} on the {SIDE_NAMES[side]} side.",
            "Choose a step and rank that the catalog lists.",
        )
    return graph


def find_graph(connection: sqlite3.Connection, step: int, rank: int, side: int) -> Graph | None:
    """The same, None when the file has none."""
    row = connection.execute(
        "SELECT first_node, node_count FROM graph WHERE step = ? AND rank = ? AND side = ?",
        (step, rank, side),
    ).fetchone()
    if row is None:
        return None
    first, count = row
    graph = Graph(side, integer(first, 0, MAX_NODE), integer(count, 1, MAX_NODE))
    # Columns of this many nodes are made next: believe no number that rows do not bear out.
    ends = "SELECT count(*) FROM node WHERE node_id IN (?, ?)"
    [[found]] = connection.execute(ends, (graph.first_node, graph.last_node))
    if found != len({graph.first_node, graph.last_node}):
        raise DamagedError(f"the first or last of {count} nodes of a graph is missing")
    return graph
