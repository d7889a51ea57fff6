"""Which nodes of the other side a node may belong to, the likeliest first."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from msprobe_builder.database.problems import DamagedError
from msprobe_builder.database.read.cells import text
from msprobe_builder.database.read.names import read_names
from tb_graph_ascend.problems import not_found
from tb_graph_ascend.query.graph import BENCH, NPU, Graph, read_graph

SHOWN = 20
CONSIDERED = 400  # of which the parameters are read
NEARBY = 100  # of those only because of where they are executed
WINDOW = 2000  # nodes before and after the expected one in which these are looked for
MODULE = 0
# What speaks for a candidate; each counts more than all that follow together.
REASONS = (
    "same_name",
    "same_path",
    "same_neighbours",
    "same_operator",
    "same_parent",
    "same_shapes",
    "same_parameters",
    "same_order",
)
Signature = tuple[tuple[int, object], ...]  # section and shape of each parameter


@dataclass(frozen=True)
class Candidate:
    """A node of the other side with what speaks for it, and its partner if it has one."""

    index: int
    name: str
    reasons: tuple[str, ...]
    matched: int | None
    matched_name: str


@dataclass(frozen=True)
class _Node:
    node: int
    parent: int | None
    subtree_end: int
    kind: int
    stem_id: int
    stem: str
    direction: int
    call: int | None


@dataclass(frozen=True)
class _Place:
    """Where a node belongs on the other side by the matched nodes executed before and after it."""

    first: int
    last: int
    expected: int
    has_both: bool  # whether there are such nodes on both ends, in the same order

    def holds(self, node: int) -> bool:
        """Whether a node has the same neighbours."""
        return self.has_both and self.first <= node <= self.last


def read_candidates(
    connection: sqlite3.Connection, step: int, rank: int, side: int, index: int
) -> list[Candidate]:
    """The best candidates of a node: of its kind and direction."""
    graph = read_graph(connection, step, rank, side)
    other = read_graph(connection, step, rank, NPU if side == BENCH else BENCH)
    if index >= graph.node_count:
        raise not_found(
            "unknown_node",
            f"There is no node {index}: the graph has {graph.node_count} nodes.",
            "Load the graph again; its nodes are numbered from 0.",
        )
    own = _read(connection, graph.first_node + index)
    parents = {} if own.parent is None else _partners(connection, side, [own.parent])
    parent = parents.get(own.parent or 0)
    place = _find_place(connection, own, graph, other)
    found = _considered(connection, own, parent, place, other)
    signatures = _signatures(connection, [own.node, *(node.node for node in found)])
    partners = _partners(connection, NPU if side == BENCH else BENCH, [one.node for one in found])

    def rank_of(node: _Node) -> tuple[int, bool, int]:
        reasons = set(_reasons(own, node, parent, place, signatures))
        weight = sum(reason in reasons and 1 << bit for bit, reason in enumerate(reversed(REASONS)))
        return -weight, node.node in partners, abs(node.node - place.expected)

    best = sorted(found, key=rank_of)[:SHOWN]
    names = read_names(connection, (node.node for node in best))
    takers = {node.node: partners[node.node] for node in best if node.node in partners}
    taker_names = read_names(connection, takers.values())
    return [
        Candidate(
            index=node.node - other.first_node,
            name=names[node.node],
            reasons=tuple(_reasons(own, node, parent, place, signatures)),
            matched=takers[node.node] - graph.first_node if node.node in takers else None,
            matched_name=taker_names[takers[node.node]] if node.node in takers else "",
        )
        for node in best
    ]


def _reasons(
    own: _Node,
    node: _Node,
    parent: int | None,
    place: _Place,
    signatures: dict[int, Signature],
) -> Iterator[str]:
    if (node.stem_id, node.call) == (own.stem_id, own.call):
        yield "same_name"
    elif _path(own) and (_path(node), node.call) == (_path(own), own.call):
        yield "same_path"
    if place.holds(node.node):
        yield "same_neighbours"
    is_sibling = parent is not None and node.parent == parent
    if is_sibling:
        yield "same_parent"
    if _operator(node.stem) == _operator(own.stem):
        yield "same_operator"
    left, right = signatures.get(own.node, ()), signatures.get(node.node, ())
    if left == right:
        yield "same_shapes"
    if [section for section, _ in left] == [section for section, _ in right]:
        yield "same_parameters"
    if is_sibling and node.node - (node.parent or 0) == own.node - (own.parent or 0):
        yield "same_order"


_NODE = (
    "SELECT node_id, parent_id, subtree_end, kind, stem_id, value, direction, call"
    " FROM node JOIN text ON text_id = stem_id"
)


def _read(connection: sqlite3.Connection, node: int) -> _Node:
    row = connection.execute(f"{_NODE} WHERE node_id = ?", (node,)).fetchone()
    if row is None:
        raise DamagedError(f"node {node} or its name is missing")
    return _Node(*row)


def _find_place(connection: sqlite3.Connection, own: _Node, graph: Graph, other: Graph) -> _Place:
    this, partner = _match_columns(graph.side)
    query = f"SELECT {this}, {partner} FROM match WHERE {this} BETWEEN ? AND ? ORDER BY {this}"
    before = connection.execute(f"{query} DESC LIMIT 1", (graph.first_node, own.node - 1))
    after = connection.execute(f"{query} LIMIT 1", (own.subtree_end + 1, graph.last_node))
    neighbour, first = before.fetchone() or (graph.first_node, other.first_node)
    _, end = after.fetchone() or (0, 0)
    has_both = first < end
    last = end - 1 if has_both else other.last_node
    return _Place(first + 1, last, min(first + own.node - neighbour, last), has_both)


def _considered(
    connection: sqlite3.Connection, own: _Node, parent: int | None, place: _Place, other: Graph
) -> list[_Node]:
    """Nodes that do the same, have the same path, parent or neighbours, the nearest first."""
    texts = connection.execute(
        "SELECT text_id, :path || '.' = substr(value, 1, length(:path) + 1)"
        " AND NOT instr(substr(value, length(:path) + 2), '.') AS has_path FROM text"
        " WHERE value = :operator OR substr(value, -length(:operator) - 1) = '.' || :operator"
        " OR has_path",
        {"operator": _operator(own.stem), "path": _path(own)},
    ).fetchall()
    bound = {
        "first": other.first_node + (own.parent is not None),  # the root matches the root
        "last": other.last_node,
        "kind": own.kind,
        "direction": own.direction,
        "parent": parent,
        "alike": json.dumps([text_id for text_id, _ in texts]),
        "path": json.dumps([text_id for text_id, has_path in texts if has_path]),
        "expected": place.expected,
    }
    same_kind = (
        "SELECT node_id FROM node WHERE node_id BETWEEN :first AND :last"
        " AND kind = :kind AND direction = :direction"
    )
    rows = connection.execute(
        f"{same_kind} AND (parent_id IS :parent AND :parent IS NOT NULL"
        "  OR stem_id IN (SELECT value FROM json_each(:alike)))"
        " ORDER BY stem_id NOT IN (SELECT value FROM json_each(:path)),"
        f" parent_id IS NOT :parent, abs(node_id - :expected) LIMIT {CONSIDERED}",
        bound,
    ).fetchall()
    if own.parent is not None:
        bound["first"] = max(place.first, place.expected - WINDOW)
        bound["last"] = min(place.last, place.expected + WINDOW)
        nearest = f"{same_kind} ORDER BY abs(node_id - :expected) LIMIT {NEARBY}"
        rows += connection.execute(nearest, bound)
    found = json.dumps([node for (node,) in rows])
    query = f"{_NODE} WHERE node_id IN (SELECT value FROM json_each(?))"
    return [_Node(*row) for row in connection.execute(query, (found,))]


def _signatures(connection: sqlite3.Connection, nodes: list[int]) -> dict[int, Signature]:
    result: dict[int, list[tuple[int, object]]] = defaultdict(list)
    rows = connection.execute(
        "SELECT node_id, ordinal, section, shape_id FROM tensor"
        " WHERE node_id IN (SELECT value FROM json_each(:nodes))"
        " UNION ALL SELECT node_id, ordinal, section, NULL FROM argument"
        " WHERE node_id IN (SELECT value FROM json_each(:nodes)) ORDER BY 1, 2",
        {"nodes": json.dumps(nodes)},
    )
    for node, _, section, shape in rows:
        result[node].append((section, shape))
    return {node: tuple(parameters) for node, parameters in result.items()}


def _partners(connection: sqlite3.Connection, side: int, nodes: list[int]) -> dict[int, int]:
    """Partner of each of the nodes of one side that has one."""
    own, partner = _match_columns(side)
    query = (
        f"SELECT {own}, {partner} FROM json_each(?) AS wanted JOIN match ON {own} = wanted.value"
    )
    return dict(connection.execute(query, (json.dumps(nodes),)))


def _match_columns(side: int) -> tuple[str, str]:
    return ("npu_node", "bench_node") if side == NPU else ("bench_node", "npu_node")


def _path(node: _Node) -> str:
    """Where a module lies in the model, without its class; empty for what is no module."""
    return text(node.stem).rpartition(".")[0] if node.kind == MODULE else ""


def _operator(stem: str) -> str:
    """What an API does, the class of a module."""
    return text(stem).rpartition(".")[2]
