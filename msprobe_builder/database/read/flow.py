"""Where the tensors of one node come from, and who takes them: recognised by how they look.

A dump does not say which tensor is which, but two recordings of one tensor have the same checksum
or the same statistics, shape and dtype. Its maker is the last call that had finished by then and
put such a tensor out. Views that were not recorded change the shape: without an exact likeness
maximum, minimum and number of elements are compared. Tensors without values go by order alone.
"""

from __future__ import annotations

import re
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod

from msprobe_builder.base.codes import CallRole, Section
from msprobe_builder.database.read.cells import MAX_NODE, integer, text
from msprobe_builder.database.read.graphs import NPU, Graph
from msprobe_builder.database.read.names import read_names

MAX_LINKS = 50
MAX_TRAIL = 500
# Look-ups in one statement: SQLite takes 32,766 values, of which each pair needs two.
_AT_ONCE = 1000

_COLUMNS = (
    "SELECT node_id, ordinal, section, name.value, subtree_end, md5, shape.value, dtype_id,"
    " max, min, mean, norm FROM tensor JOIN node USING (node_id)"
    " LEFT JOIN text AS name ON name.text_id = name_id"
    " LEFT JOIN text AS shape ON shape.text_id = shape_id"
)
_OF_NODE = f"{_COLUMNS} WHERE node_id = ? AND section IN (0, 1) ORDER BY section, ordinal"
_OF_GRAPH = f"{_COLUMNS} WHERE node_id BETWEEN ? AND ? AND section IN (0, 1) AND "
_BEFORE = (
    f"{_COLUMNS} WHERE node_id BETWEEN ? AND ? AND section = 1 AND subtree_end < ?"
    " AND shape.value = ? AND dtype_id = ? ORDER BY node_id DESC LIMIT 1"
)
_AFTER = (
    f"{_COLUMNS} WHERE node_id BETWEEN ? AND ? AND section = 0"
    " AND shape.value = ? AND dtype_id = ? ORDER BY node_id LIMIT 1"
)
_DIMENSIONS = re.compile(r"\d+")


@dataclass(frozen=True)
class FlowLink:
    """The other end of a tensor's way."""

    index: int
    name: str
    tensor: str
    grade: int
    role: int
    evidence: str
    certainty: str


@dataclass(frozen=True)
class TensorFlow:
    """One tensor of the node."""

    section: int
    name: str
    maker: FlowLink | None
    takers: tuple[FlowLink, ...]


@dataclass(frozen=True)
class NodeFlow:
    """All tensors of the node, and the way of what is wrong to it, first node first."""

    tensors: tuple[TensorFlow, ...]
    trail: tuple[FlowLink, ...]


@dataclass(frozen=True)
class _Tensor:
    node: int
    ordinal: int
    section: int
    name: str
    end: int  # last node of the subtree
    md5: str
    shape: str
    dtype: object
    statistics: tuple[object, ...]

    @property
    def is_output(self) -> bool:
        return self.section == Section.OUTPUT

    @property
    def is_flat(self) -> bool:
        """All elements alike, as in masks and zeros: every such tensor looks the same."""
        return self.statistics[0] == self.statistics[1]

    @property
    def has_values(self) -> bool:
        return None not in self.statistics[:2]


@dataclass(frozen=True)
class _Likeness:
    """A way of telling that two recordings are of one tensor."""

    evidence: str
    key: Callable[[_Tensor], object]  # None where it does not apply


_LIKENESSES = (
    _Likeness("checksum", lambda one: (one.md5, one.shape, one.dtype) if one.md5 else None),
    _Likeness(
        "statistics",
        lambda one: (one.statistics, one.shape, one.dtype) if None not in one.statistics else None,
    ),
    _Likeness(
        "values",
        lambda one: None if one.is_flat else (one.statistics[:2], _elements(one.shape)),
    ),
)
_Found = tuple[_Tensor, str, str]  # what, evidence, certainty


def read_flow(connection: sqlite3.Connection, graph: Graph, node: int) -> NodeFlow:
    """Makers and takers of each tensor of a node, and the trail that leads to it."""
    own = [_tensor(row) for row in connection.execute(_OF_NODE, (node,))]
    alike = _alike(connection, graph, own)
    found: list[tuple[_Tensor, _Found | None, list[_Found]]] = []
    for tensor in own:
        if not tensor.has_values and not tensor.md5:
            before, after = _by_order(connection, graph, tensor)
            found.append((tensor, before, after))
            continue
        found.append((tensor, _maker(tensor, alike), _takers(tensor, alike)))
    trail = _trail(connection, node) if graph.side == NPU else []
    links = [link for _, maker, takers in found for link in [*takers, *([maker] if maker else [])]]
    ends = _Ends(connection, graph, {link[0].node for link in links} | set(trail))
    return NodeFlow(
        tensors=tuple(
            TensorFlow(
                tensor.section,
                tensor.name,
                None if maker is None else ends.link(*maker),
                tuple(ends.link(*taker) for taker in takers[:MAX_LINKS]),
            )
            for tensor, maker, takers in found
        ),
        trail=tuple(ends.on_trail(one) for one in trail),
    )


def _tensor(row: Sequence[object]) -> _Tensor:
    node, ordinal, section, name, end, md5, shape, dtype, *statistics = row
    return _Tensor(
        node=integer(node, 0, MAX_NODE),
        ordinal=integer(ordinal),
        section=integer(section, 0, 3),
        name=text(name),
        end=integer(end, 0, MAX_NODE),
        md5=text(md5),
        shape=text(shape),
        dtype=dtype,
        statistics=tuple(statistics),
    )


def _elements(shape: str) -> int:
    return prod(map(int, _DIMENSIONS.findall(shape)))


def _alike(connection: sqlite3.Connection, graph: Graph, own: list[_Tensor]) -> list[_Tensor]:
    """Every input and output of the graph that may be one of the node's, in order of execution."""
    sums = sorted({one.md5 for one in own if one.md5})
    ranges = sorted({one.statistics[:2] for one in own if one.has_values}, key=repr)
    found: dict[tuple[int, int], _Tensor] = {}
    for column, values in (("md5", [(one,) for one in sums]), ("(max, min)", ranges)):
        for start in range(0, len(values), _AT_ONCE):
            part = values[start : start + _AT_ONCE]
            places = ", ".join(["(?, ?)" if len(part[0]) == 2 else "(?)"] * len(part))
            rows = connection.execute(
                f"{_OF_GRAPH} {column} IN (VALUES {places})",
                (graph.first, graph.last, *(value for pair in part for value in pair)),
            )
            for tensor in map(_tensor, rows):
                found[tensor.node, tensor.ordinal] = tensor
    return [found[place] for place in sorted(found)]


def _ended(tensor: _Tensor) -> tuple[int, int]:
    """When an output was there: inner calls end before the outer ones around them."""
    return tensor.end, -tensor.node


def _maker(tensor: _Tensor, alike: list[_Tensor]) -> _Found | None:
    """The innermost call that put an input out before, or a module's output inside of it."""
    node, end = tensor.node, tensor.end
    if tensor.is_output and end == node:
        return None
    handed: _Found | None = None
    for likeness in _LIKENESSES:
        key = likeness.key(tensor)
        if key is None:
            continue
        same = [one for one in alike if one.node != node and likeness.key(one) == key]
        if tensor.is_output:
            given = [one for one in same if one.is_output and node < one.node and one.end <= end]
        else:
            given = [one for one in same if one.is_output and one.end < node]
        if given:
            last = max(given, key=_ended)
            inner = [one for one in given if last.node <= one.node and one.end <= last.end]
            made = min(inner, key=lambda one: (one.end - one.node, -one.node))
            return made, likeness.evidence, _certainty(tensor, likeness, given, last)
        around = [one for one in same if not one.is_output and one.node < node <= one.end]
        if around and not tensor.is_output and handed is None:
            outer = min(around, key=lambda one: one.node)
            handed = outer, likeness.evidence, "likely" if tensor.is_flat else "sure"
    return handed


def _certainty(
    tensor: _Tensor, likeness: _Likeness, given: Iterable[_Tensor], last: _Tensor
) -> str:
    if tensor.is_flat and likeness.evidence != "checksum":
        return "guess"
    # What ends inside the last one, or hands on to it, is the same tensor.
    is_alone = all(last.node <= one.node and one.end <= last.end for one in given)
    if likeness.evidence == "values":
        return "likely" if is_alone else "guess"
    return "sure" if is_alone else "likely"


def _takers(tensor: _Tensor, alike: list[_Tensor]) -> list[_Found]:
    """The innermost calls that are given an output later, or a module's input inside of it."""
    node, end = tensor.node, tensor.end
    if not tensor.is_output and end == node:
        return []
    for likeness in _LIKENESSES:
        key = likeness.key(tensor)
        if key is None:
            continue
        same = [one for one in alike if one.node != node and likeness.key(one) == key]
        first, last = (end + 1, MAX_NODE) if tensor.is_output else (node + 1, end)
        # Another call that puts out the like is who later ones have it from.
        rivals = [
            one.end
            for one in same
            if one.is_output and first <= one.node and not one.node <= node <= one.end
        ]
        until = min([last, *rivals])
        taken = [one for one in same if not one.is_output and first <= one.node <= until]
        inner = [
            one for one in taken if not any(one.node < other.node <= one.end for other in taken)
        ]
        if inner:
            sure = "guess" if tensor.is_flat and likeness.evidence != "checksum" else "sure"
            certainty = "likely" if likeness.evidence == "values" else sure
            seen: dict[int, _Found] = {}
            for one in inner:
                seen.setdefault(one.node, (one, likeness.evidence, certainty))
            return list(seen.values())
    return []


def _by_order(
    connection: sqlite3.Connection, graph: Graph, tensor: _Tensor
) -> tuple[_Found | None, list[_Found]]:
    """Of what has no values: the nearest calls of the same module with the same shape and dtype."""
    if not tensor.shape:
        return None, []
    node, end, look = tensor.node, tensor.end, (tensor.shape, tensor.dtype)
    parent = connection.execute(
        "SELECT parent.node_id, parent.subtree_end FROM node JOIN node AS parent"
        " ON parent.node_id = node.parent_id WHERE node.node_id = ?",
        (node,),
    ).fetchone()
    first, last = parent or (graph.first, graph.last)
    first, last = integer(first, 0, MAX_NODE), integer(last, 0, MAX_NODE)
    if tensor.is_output:
        row = connection.execute(_AFTER, (end + 1, last, *look)).fetchone()
        return None, [] if row is None else [(_tensor(row), "order", "guess")]
    row = connection.execute(_BEFORE, (first + 1, node - 1, node, *look)).fetchone()
    return None if row is None else (_tensor(row), "order", "guess"), []


def _trail(connection: sqlite3.Connection, node: int) -> list[int]:
    """The shortest way from the suspect that a node inherits from; empty when it does not."""
    row = connection.execute(
        "SELECT suspect.node_id FROM role JOIN suspect USING (suspect_id) WHERE role.node_id = ?",
        (node,),
    ).fetchone()
    if row is None:
        return []
    goal = integer(row[0], 0, MAX_NODE)
    came: dict[int, int] = {node: node}
    ahead = deque([node])
    while ahead and goal not in came:
        here = ahead.popleft()
        for (giver,) in connection.execute(
            "SELECT giver_id FROM propagation WHERE node_id = ? ORDER BY giver_id", (here,)
        ):
            if giver not in came:
                came[integer(giver, 0, MAX_NODE)] = here
                ahead.append(giver)
    if goal not in came:
        return [] if goal == node else [goal, node]
    way = [goal]
    while way[-1] != node and len(way) < MAX_TRAIL:
        way.append(came[way[-1]])
    return way


class _Ends:
    """What is shown of the nodes at the other ends."""

    def __init__(self, connection: sqlite3.Connection, graph: Graph, nodes: set[int]) -> None:
        inside = {one for one in nodes if graph.first <= one <= graph.last}
        self._first = graph.first
        self._names = read_names(connection, inside)
        self._grades: dict[int, int] = {}
        self._roles: dict[int, int] = {}
        is_judged = graph.side == NPU and bool(
            connection.execute("SELECT count(*) FROM verdict").fetchone()[0]
        )
        for one in inside:
            grade, role, matched = connection.execute(
                "SELECT grade, role, npu_node FROM node LEFT JOIN role USING (node_id)"
                " LEFT JOIN match ON npu_node = node.node_id WHERE node.node_id = ?",
                (one,),
            ).fetchone()
            clean = CallRole.CLEAN if is_judged and matched is not None else CallRole.UNKNOWN
            self._grades[one] = integer(grade, 0, 6)
            self._roles[one] = int(clean) if role is None else integer(role, 0, len(CallRole) - 1)

    def link(self, tensor: _Tensor, evidence: str, certainty: str) -> FlowLink:
        """One end of a tensor's way."""
        return self._link(tensor.node, tensor.name, evidence, certainty)

    def on_trail(self, node: int) -> FlowLink:
        """A node on the way of what is wrong."""
        return self._link(node, "", "", "")

    def _link(self, node: int, tensor: str, evidence: str, certainty: str) -> FlowLink:
        return FlowLink(
            index=node - self._first,
            name=self._names.get(node, ""),
            tensor=tensor,
            grade=self._grades.get(node, 0),
            role=self._roles.get(node, 0),
            evidence=evidence,
            certainty=certainty,
        )
