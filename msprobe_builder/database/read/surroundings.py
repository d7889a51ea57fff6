"""Where a suspect lies: the module to record next, on which ranks, and what is inside it."""

from __future__ import annotations

import json
import sqlite3

from msprobe_builder.base.codes import Direction, Kind
from msprobe_builder.database.read.cells import MAX_NODE, integer, optional_integer, text
from msprobe_builder.verdict.ruling.next_dump import Surroundings, TensorKind, listed_name

_NODE = """
SELECT node.parent_id, kind, direction, value, step, rank, level, node.graph_id, stem_id, side,
    coalesce(
        (SELECT bench_node FROM match WHERE npu_node = node.node_id),
        (SELECT npu_node FROM match WHERE bench_node = node.node_id)
    ), node.call
FROM node JOIN graph USING (graph_id) JOIN text ON text_id = stem_id WHERE node.node_id = ?
"""
_NAME = "SELECT value, graph_id, call FROM node JOIN text ON text_id = stem_id WHERE node_id = ?"
# Of a merged run: the ranks that called the node, and how many there are.
_RANKS = "SELECT rank FROM origin WHERE node_id = ? ORDER BY rank"
_OF_GRAPH = """
FROM graph CROSS JOIN {table} ON {table}.node_id BETWEEN first_node AND first_node + node_count - 1
WHERE graph.graph_id = ?
"""  # which reads no nodes but these
_ALL_RANKS = f"SELECT count(DISTINCT origin.rank) {_OF_GRAPH.format(table='origin')}"
# A name in the list takes all calls of the module, in both directions ...
_NODES = _OF_GRAPH.format(table="node")
_CALLED = f"SELECT node_id, subtree_end {_NODES} AND stem_id = ? AND kind = ?"
_MADE = f"SELECT node_id, node_id {_NODES} AND stem_id = ? AND call = ?"
# ... and a part of a name all modules that have it, here on the ranks of one of them.
_CALLED_ALIKE = """
SELECT node.node_id, subtree_end FROM node JOIN text ON text_id = stem_id
JOIN origin ON origin.node_id = node.node_id
    AND origin.rank = (SELECT min(rank) FROM origin WHERE node_id = :node)
WHERE graph_id = :graph AND kind = :kind AND instr(value || '.', :part)
"""
_ALL_CALLS = "SELECT min(node_id), max(node_id) FROM node WHERE graph_id = ?"
_TENSORS = """
SELECT shape.value, dtype.value, count, distinct_count FROM (
    SELECT shape_id, dtype_id, count(*) AS count,
        count(DISTINCT coalesce(norm, md5)) AS distinct_count
    FROM tensor WHERE node_id BETWEEN ? AND ? GROUP BY shape_id, dtype_id
)
LEFT JOIN text AS shape ON shape.text_id = shape_id
LEFT JOIN text AS dtype ON dtype.text_id = dtype_id
"""
# A stack is written once for all calls that share it: each frame as text, with some punctuation.
_STACKS = """
SELECT sum(length(file.value) + length(function.value) + length(source.value) + 40)
FROM (
    SELECT DISTINCT stack_id FROM json_each(?) AS span CROSS JOIN node
    ON node_id BETWEEN json_extract(span.value, '$[0]') AND json_extract(span.value, '$[1]')
) JOIN stack USING (stack_id) JOIN frame USING (frame_id)
JOIN text AS file ON file.text_id = file_id JOIN text AS function ON function.text_id = function_id
JOIN text AS source ON source.text_id = source_id
"""
_Spans = tuple[tuple[int, int], ...]
_Counted = tuple[int, int, tuple[TensorKind, ...]]
# What was counted in spans of nodes: suspects of one module have the same.
Known = dict[_Spans, _Counted]


def read_surroundings(
    connection: sqlite3.Connection, node: int, known: Known, *, is_outside: bool = False
) -> Surroundings | None:
    """The innermost module around a node, or the node itself, that both runs call.

    A run that lacks a module has nothing to record of it; without any that both call it is the
    innermost one, and outside of all modules the call itself. ``known`` keeps what was counted.
    ``is_outside``: what surrounds the node is in no module, so that all calls of its graph count,
    as they do where one run alone makes a call outside of all modules.
    """
    place = _row(connection, node)
    if place is None:
        return None
    step, rank, level = integer(place[4]), integer(place[5]), text(place[6])
    found = None if is_outside else _module_around(connection, node, place)
    if found is None:
        ranks = _ranks(connection, node) or (rank,)
        calls = () if is_outside else _both_calls(connection, place)
        spans = connection.execute(_ALL_CALLS, (place[7],))
        if calls:
            spans = connection.execute(_MADE, (place[7], place[8], place[11]))
        counted = _counted(connection, spans.fetchall(), known)
        return Surroundings(step, ranks, level, calls, False, *counted)
    node, row = found
    names = [text(row[3])]
    of_run, graph = node, integer(row[7])
    if row[10] is not None:
        partner = integer(row[10], 0, MAX_NODE)
        name, other, _ = connection.execute(_NAME, (partner,)).fetchone()
        names.append(text(name))
        if row[9]:  # ranks are those of the run under debug
            of_run, graph = partner, integer(other)
    ranks = _ranks(connection, of_run)
    (all_ranks,) = connection.execute(_ALL_RANKS, (graph,)).fetchone()
    is_of_some = len(ranks) < integer(all_ranks)
    if is_of_some:
        spans = connection.execute(
            _CALLED_ALIKE,
            {
                "node": of_run,
                "graph": graph,
                "kind": int(Kind.MODULE),
                "part": listed_name(names[0], is_of_some),
            },
        )
    else:
        spans = connection.execute(_CALLED, (row[7], row[8], int(Kind.MODULE)))
    ranks = ranks or (rank,)
    counted = _counted(connection, spans.fetchall(), known)
    return Surroundings(step, ranks, level, tuple(names), is_of_some, *counted)


def _both_calls(connection: sqlite3.Connection, row: tuple[object, ...]) -> tuple[str, ...]:
    """The name of a call on both sides, without its direction; empty where one alone makes it."""
    if row[1] != Kind.API or row[10] is None:
        return ()
    name, _, call = connection.execute(_NAME, (integer(row[10], 0, MAX_NODE),)).fetchone()
    own, other = optional_integer(row[11]), optional_integer(call)
    if own is None or other is None:
        return ()
    return f"{text(row[3])}.{own}", f"{text(name)}.{other}"


def _counted(
    connection: sqlite3.Connection, spans: list[tuple[object, object]], known: Known
) -> _Counted:
    """How many calls stand in spans of nodes, the bytes of their stacks, and their tensors."""
    places = tuple(
        (integer(first, 0, MAX_NODE), integer(last, 0, MAX_NODE)) for first, last in spans
    )
    if places not in known:
        known[places] = _count(connection, places)
    return known[places]


def _count(connection: sqlite3.Connection, places: _Spans) -> _Counted:
    tensors = tuple(
        TensorKind(text(shape), text(dtype), integer(count), max(1, integer(distinct)))
        for place in places
        for shape, dtype, count, distinct in connection.execute(_TENSORS, place)
    )
    (stacks,) = connection.execute(_STACKS, (json.dumps(places),)).fetchone()
    return sum(last - first + 1 for first, last in places), integer(stacks or 0), tensors


def _ranks(connection: sqlite3.Connection, node: int) -> tuple[int, ...]:
    return tuple(integer(one) for (one,) in connection.execute(_RANKS, (node,)))


def _module_around(
    connection: sqlite3.Connection, node: int, row: tuple[object, ...]
) -> tuple[int, tuple[object, ...]] | None:
    innermost = None
    while True:
        if row[1] == Kind.MODULE and row[2] != Direction.NONE:
            innermost = innermost or (node, row)
            if row[10] is not None:
                return node, row
        above = optional_integer(row[0], 0, node - 1)
        outer = None if above is None else _row(connection, above)
        if above is None or outer is None:
            return innermost
        node, row = above, outer


def _row(connection: sqlite3.Connection, node: int) -> tuple[object, ...] | None:
    found: tuple[object, ...] | None = connection.execute(_NODE, (node,)).fetchone()
    return found
