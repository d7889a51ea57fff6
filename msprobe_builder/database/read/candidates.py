"""Nodes of the other side that one node may belong to, with what speaks for them."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from msprobe_builder.base.codes import Kind
from msprobe_builder.database.problems import DamagedError
from msprobe_builder.database.read.cells import (
    MAX_NODE,
    integer,
    number,
    optional_integer,
    text,
)
from msprobe_builder.database.read.graphs import Graph

EQUAL = 1e-5  # runs that are equal but for rounding agree this well
Signature = tuple[tuple[int, object], ...]  # section and shape of each parameter

_NODE = (
    "SELECT node_id, parent_id, subtree_end, kind, stem_id, value, direction, call"
    " FROM node JOIN text ON text_id = stem_id"
)


@dataclass(frozen=True)
class StoredNode:
    """A node with its place and the parts of its name."""

    node: int
    parent: int | None
    subtree_end: int
    kind: int
    stem_id: int
    stem: str
    direction: int
    call: int | None

    @property
    def path(self) -> str:
        """Where a module lies in the model, without its class; empty for what is no module."""
        return self.stem.rpartition(".")[0] if self.kind == Kind.MODULE else ""

    @property
    def operator(self) -> str:
        """What an API does, the class of a module."""
        return self.stem.rpartition(".")[2]


def read_stored_node(connection: sqlite3.Connection, node: int) -> StoredNode:
    """One node; DamagedError when it or its name is missing."""
    found = _nodes(connection.execute(f"{_NODE} WHERE node_id = ?", (node,)))
    if not found:
        raise DamagedError(f"node {node} or its name is missing")
    return found[0]


def nodes_alike(
    connection: sqlite3.Connection,
    own: StoredNode,
    parent: int | None,
    other: Graph,
    expected: int,
    limit: int,
) -> list[int]:
    """Nodes of a graph that do what ``own`` does, have its path, or lie in ``parent``.

    Those of the same path come first, then those in ``parent``, then the nearest to ``expected``.
    """
    texts = connection.execute(
        "SELECT text_id, :path || '.' = substr(value, 1, length(:path) + 1)"
        " AND NOT instr(substr(value, length(:path) + 2), '.') AS has_path FROM text"
        " WHERE value = :operator OR substr(value, -length(:operator) - 1) = '.' || :operator"
        " OR has_path",
        {"operator": own.operator, "path": own.path},
    ).fetchall()
    rows = connection.execute(
        f"{_SAME_KIND} AND (parent_id IS :parent AND :parent IS NOT NULL"
        "  OR stem_id IN (SELECT value FROM json_each(:alike)))"
        " ORDER BY stem_id NOT IN (SELECT value FROM json_each(:path)),"
        " parent_id IS NOT :parent, abs(node_id - :expected) LIMIT :limit",
        {
            "first": other.first + (own.parent is not None),  # the root matches the root
            "last": other.last,
            "kind": own.kind,
            "direction": own.direction,
            "parent": parent,
            "alike": json.dumps([text_id for text_id, _ in texts]),
            "path": json.dumps([text_id for text_id, has_path in texts if has_path]),
            "expected": expected,
            "limit": limit,
        },
    )
    return [node for (node,) in rows]


_SAME_KIND = (
    "SELECT node_id FROM node WHERE node_id BETWEEN :first AND :last"
    " AND kind = :kind AND direction = :direction"
)


def nodes_near(
    connection: sqlite3.Connection, own: StoredNode, nodes: range, expected: int, limit: int
) -> list[int]:
    """Of the nodes of its kind and direction those nearest to ``expected``."""
    rows = connection.execute(
        f"{_SAME_KIND} ORDER BY abs(node_id - :expected) LIMIT :limit",
        {
            "first": nodes.start,
            "last": nodes.stop - 1,
            "kind": own.kind,
            "direction": own.direction,
            "expected": expected,
            "limit": limit,
        },
    )
    return [node for (node,) in rows]


def read_stored_nodes(connection: sqlite3.Connection, nodes: Iterable[int]) -> list[StoredNode]:
    """Those of the nodes that are there, by id."""
    query = f"{_NODE} WHERE node_id IN (SELECT value FROM json_each(?))"
    return _nodes(connection.execute(query, (json.dumps(sorted(set(nodes))),)))


def read_signatures(connection: sqlite3.Connection, nodes: list[int]) -> dict[int, Signature]:
    """Section and number of the shape of the parameters of each node that has any."""
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


def _nodes(rows: Iterable[tuple[object, ...]]) -> list[StoredNode]:
    return [
        StoredNode(
            node=integer(node, 0, MAX_NODE),
            parent=optional_integer(parent, 0, MAX_NODE),
            subtree_end=integer(end, 0, MAX_NODE),
            kind=integer(kind, 0, len(Kind) - 1),
            stem_id=integer(stem_id, 0, MAX_NODE),
            stem=text(stem),
            direction=integer(direction, 0, 2),
            call=optional_integer(call),
        )
        for node, parent, end, kind, stem_id, stem, direction, call in rows
    ]


def read_likely(connection: sqlite3.Connection, node: int, other: Graph) -> dict[int, float]:
    """Likelihood of each node of ``other`` that the build found likely for a node."""
    rows = connection.execute(
        "SELECT candidate_id, likelihood FROM likely WHERE node_id = ? ORDER BY place", (node,)
    )
    return {
        integer(candidate, other.first, other.last): number(likelihood) or 0.0
        for candidate, likelihood in rows
    }


def nodes_of_equal_output(
    connection: sqlite3.Connection, own: int, nodes: Iterable[int]
) -> set[int]:
    """Which nodes put out what a node does, as the statistics tell and as far as rounding goes."""
    rows = connection.execute(
        "SELECT DISTINCT other.node_id FROM tensor AS own JOIN tensor AS other"
        " ON other.section = 1 AND other.node_id IN (SELECT value FROM json_each(:nodes))"
        " AND abs(own.norm - other.norm) <= :equal * abs(own.norm)"
        " AND abs(own.max - other.max) <= :equal * max(abs(own.max), abs(own.min))"
        " AND abs(own.min - other.min) <= :equal * max(abs(own.max), abs(own.min))"
        " WHERE own.node_id = :own AND own.section = 1 AND own.max != own.min",
        {"nodes": json.dumps(list(nodes)), "own": own, "equal": EQUAL},
    )
    return {node for (node,) in rows}
