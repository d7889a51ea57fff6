"""What a request names: 404 where the file has no such thing."""

from __future__ import annotations

import sqlite3

from msprobe_builder.base.codes import SIDES
from msprobe_builder.database.read.across import NodePlace, read_across
from msprobe_builder.database.read.graphs import Graph, find_graph
from tb_graph_ascend.problems import not_found


def wanted_graph(connection: sqlite3.Connection, step: int, rank: int, side: int) -> Graph:
    """The graph of one side; 404 when the file has none."""
    graph = find_graph(connection, step, rank, side)
    if graph is None:
        raise not_found(
            "unknown_graph",
            f"The file holds no graph of step {step}, rank {rank} on the {SIDES[side]} side.",
            "Choose a step and rank that the catalog lists.",
        )
    return graph


def wanted_node(graph: Graph, index: int) -> int:
    """Id of a node given by its place in execution order; 404 when there is none."""
    if index >= graph.count:
        raise not_found(
            "unknown_node",
            f"There is no node {index}: the graph of step {graph.step}, rank {graph.rank} on the"
            f" {SIDES[graph.side]} side has {graph.count} nodes.",
            "Load the graph again; its nodes are numbered from 0.",
        )
    return graph.first + index


def wanted_places(connection: sqlite3.Connection, name: str, side: int) -> list[NodePlace]:
    """Every node of a name on one side; 404 when there is none."""
    places = read_across(connection, name, side)
    if not places:
        raise not_found(
            "unknown_name",
            f"No graph on this side has a node {name[:200]!r}.",
            "Give a full name as the node's details show it, and its side.",
        )
    return places
