"""Both sides of each step and rank of a database."""

from __future__ import annotations

import sqlite3
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from msprobe_builder.database.problems import DamagedError
from msprobe_builder.database.read.graphs import BENCH, NPU, Graph, read_graphs


@dataclass(frozen=True)
class GraphPair:
    """Both sides of one step and rank."""

    npu: Graph
    bench: Graph

    @property
    def step(self) -> int:
        """The step of both."""
        return self.npu.step

    @property
    def rank(self) -> int:
        """The rank of both."""
        return self.npu.rank


def read_pairs(connection: sqlite3.Connection) -> list[GraphPair]:
    """Every step and rank that has both sides, in order."""
    sides: dict[tuple[int, int], dict[int, Graph]] = {}
    for graph in read_graphs(connection):
        sides.setdefault((graph.step, graph.rank), {})[graph.side] = graph
    return [GraphPair(one[NPU], one[BENCH]) for one in sides.values() if len(one) == 2]


def nodes_in(graph: Graph, ordered: Sequence[int]) -> Sequence[int]:
    """Those of rising node ids that a graph holds."""
    return ordered[bisect_left(ordered, graph.first) : bisect_right(ordered, graph.last)]


def pair_of(pairs: list[GraphPair], npu_node: int) -> GraphPair:
    """The step and rank that an npu node belongs to."""
    for pair in pairs:
        if npu_node in pair.npu:
            return pair
    raise DamagedError(f"node {npu_node} lies in no graph with both sides")
