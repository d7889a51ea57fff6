"""Which nodes of the other side a node may belong to, the likeliest first."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from msprobe_builder.database.problems import DamagedError
from msprobe_builder.database.read.candidates import (
    Signature,
    StoredNode,
    nodes_alike,
    nodes_near,
    nodes_of_equal_output,
    read_likely,
    read_signatures,
    read_stored_node,
    read_stored_nodes,
)
from msprobe_builder.database.read.graphs import Graph
from msprobe_builder.database.read.matches import matched_neighbours, partner_of, partners_of
from msprobe_builder.database.read.names import read_names

SHOWN = 20
CONSIDERED = 400  # of which the parameters are read
NEARBY = 100  # of those only because of where they are executed
WINDOW = 2000  # nodes before and after the expected one in which these are looked for
# What speaks for a candidate; each counts more than all that follow together.
REASONS = (
    "same_values",
    "same_name",
    "same_path",
    "same_neighbours",
    "same_operator",
    "same_parent",
    "same_shapes",
    "same_parameters",
    "same_order",
)


@dataclass(frozen=True)
class Candidate:
    """A node of the other side with what speaks for it, and its partner if it has one."""

    index: int
    name: str
    reasons: tuple[str, ...]
    matched: int | None
    matched_name: str
    likelihood: float | None = None  # by the evidence that automatic matching weighs


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


def rank_candidates(
    connection: sqlite3.Connection, graph: Graph, other: Graph, node: int
) -> list[Candidate]:
    """The best candidates of a node of ``graph`` in ``other``: of its kind and direction."""
    own = read_stored_node(connection, node)
    parent = None if own.parent is None else partner_of(connection, graph.side, own.parent)
    place = _find_place(connection, own, graph, other)
    likely = read_likely(connection, node, other)
    found = _considered(connection, own, parent, place, other, likely)
    equal = nodes_of_equal_output(connection, node, [one.node for one in found])
    signatures = read_signatures(connection, [own.node, *(one.node for one in found)])
    partners = partners_of(connection, other.side, [one.node for one in found])

    def reasons_of(one: StoredNode) -> tuple[str, ...]:
        values = ("same_values",) if one.node in equal else ()
        return (*values, *_reasons(own, one, parent, place, signatures))

    def rank_of(one: StoredNode) -> tuple[float, int, bool, int]:
        reasons = set(reasons_of(one))
        weight = sum(reason in reasons and 1 << bit for bit, reason in enumerate(reversed(REASONS)))
        distance = abs(one.node - place.expected)
        return -likely.get(one.node, 0.0), -weight, one.node in partners, distance

    best = sorted(found, key=rank_of)[:SHOWN]
    names = read_names(connection, (one.node for one in best))
    takers = {one.node: partners[one.node] for one in best if one.node in partners}
    taker_names = read_names(connection, takers.values())
    return [
        Candidate(
            index=_index(other, one.node),
            name=names[one.node],
            reasons=reasons_of(one),
            matched=_index(graph, takers[one.node]) if one.node in takers else None,
            matched_name=taker_names[takers[one.node]] if one.node in takers else "",
            likelihood=likely.get(one.node),
        )
        for one in best
    ]


def _index(graph: Graph, node: int) -> int:
    if node not in graph:
        raise DamagedError(f"a match leads to node {node}, which is of another graph")
    return node - graph.first


def _reasons(
    own: StoredNode,
    node: StoredNode,
    parent: int | None,
    place: _Place,
    signatures: dict[int, Signature],
) -> Iterator[str]:
    if (node.stem_id, node.call) == (own.stem_id, own.call):
        yield "same_name"
    elif own.path and (node.path, node.call) == (own.path, own.call):
        yield "same_path"
    if place.holds(node.node):
        yield "same_neighbours"
    is_sibling = parent is not None and node.parent == parent
    if is_sibling:
        yield "same_parent"
    if node.operator == own.operator:
        yield "same_operator"
    left, right = signatures.get(own.node, ()), signatures.get(node.node, ())
    if left == right:
        yield "same_shapes"
    if [section for section, _ in left] == [section for section, _ in right]:
        yield "same_parameters"
    if is_sibling and node.node - (node.parent or 0) == own.node - (own.parent or 0):
        yield "same_order"


def _find_place(
    connection: sqlite3.Connection, own: StoredNode, graph: Graph, other: Graph
) -> _Place:
    nodes = range(graph.first, graph.last + 1)
    before, after = matched_neighbours(connection, graph.side, nodes, own.node - 1, own.subtree_end)
    neighbour, first = before or (graph.first, other.first)
    _, end = after or (0, 0)
    has_both = first < end
    last = end - 1 if has_both else other.last
    return _Place(first + 1, last, min(first + own.node - neighbour, last), has_both)


def _considered(
    connection: sqlite3.Connection,
    own: StoredNode,
    parent: int | None,
    place: _Place,
    other: Graph,
    likely: Iterable[int],
) -> list[StoredNode]:
    """Likely nodes, and those that do the same, have the same path, parent or neighbours."""
    found = nodes_alike(connection, own, parent, other, place.expected, CONSIDERED)
    if own.parent is not None:
        near = range(
            max(place.first, place.expected - WINDOW), min(place.last, place.expected + WINDOW) + 1
        )
        found += nodes_near(connection, own, near, place.expected, NEARBY)
    return read_stored_nodes(connection, [*likely, *found])
