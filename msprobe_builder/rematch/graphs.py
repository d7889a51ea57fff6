"""Where the nodes of each step and rank lie in a database."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class StoredGraph:
    """One side of one step and rank: a range of node ids that begins with the root."""

    first: int
    count: int
    dump_dir: Path
    tensor_dir: Path | None

    @property
    def last(self) -> int:
        """Id of the last node."""
        return self.first + self.count - 1


@dataclass(frozen=True)
class GraphPair:
    """Both sides of one step and rank."""

    step: int
    rank: int
    npu: StoredGraph
    bench: StoredGraph


def read_pairs(connection: sqlite3.Connection) -> list[GraphPair]:
    """Every step and rank that has both sides, in order."""
    sides: dict[tuple[int, int], dict[int, StoredGraph]] = {}
    for step, rank, side, first, count, dump_dir, tensor_dir in connection.execute(
        "SELECT step, rank, side, first_node, node_count, dump_dir, tensor_dir FROM graph"
    ):
        place = None if tensor_dir is None else Path(tensor_dir)
        graph = StoredGraph(int(first), int(count), Path(dump_dir), place)
        sides.setdefault((step, rank), {})[side] = graph
    return [
        GraphPair(step, rank, graphs[0], graphs[1])
        for (step, rank), graphs in sorted(sides.items())
        if len(graphs) == 2
    ]


def pair_of(pairs: list[GraphPair], npu_node: int) -> GraphPair:
    """The step and rank that an npu node belongs to."""
    return next(pair for pair in pairs if pair.npu.first <= npu_node <= pair.npu.last)
