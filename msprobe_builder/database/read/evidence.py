"""What a run without a reference is checked by."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from sys import intern
from typing import Any

import numpy as np

from msprobe_builder.base.codes import Direction, Kind
from msprobe_builder.database.problems import DamagedError
from msprobe_builder.database.read.cells import (
    MAX_NODE,
    integer,
    number,
    optional_integer,
    optional_text,
    text,
)
from msprobe_builder.database.read.graphs import Graph, read_graphs
from msprobe_builder.database.read.names import stored_name
from msprobe_builder.invariants.run import Node, Rank, Run, Tensor
from msprobe_builder.invariants.wiring import Children
from msprobe_builder.sketch.definition import NUMBERS

_NODES = """
SELECT node.node_id, node.kind, text.value, node.direction, node.call,
    above.kind IS NOT :module OR above.direction = 0
FROM node JOIN text ON text_id = node.stem_id
LEFT JOIN node AS above ON above.node_id = node.parent_id
WHERE node.graph_id = :graph AND ((node.kind = :module AND node.direction = :forward)
    OR EXISTS (SELECT 1 FROM evidence WHERE evidence.node_id = node.node_id))
ORDER BY node.node_id
"""
_TENSORS = """
SELECT node_id, ordinal, section, name.value, dtype.value, shape.value, max, min, mean, norm,
    nan_flags, numbers, left_out, maker, maker_id, maker_ordinal, maker_name.value
FROM evidence JOIN tensor USING (node_id, ordinal)
JOIN text AS name ON name.text_id = name_id
LEFT JOIN text AS dtype ON dtype.text_id = dtype_id
LEFT JOIN text AS shape ON shape.text_id = shape_id
LEFT JOIN text AS maker_name ON maker_name.text_id = maker_name_id
WHERE node_id BETWEEN ? AND ? ORDER BY node_id, ordinal
"""
_CALLS = """
SELECT parent_id, value, kind, count(*) FROM node JOIN text ON text_id = stem_id
WHERE graph_id = ? AND direction = ? GROUP BY parent_id, stem_id, kind
"""


def read_runs(connection: sqlite3.Connection) -> list[tuple[Run, Children]]:
    """The ranks of each step, and by rank and module call which calls it makes, how often."""
    steps: dict[int, list[Graph]] = {}
    for graph in read_graphs(connection):
        steps.setdefault(graph.step, []).append(graph)
    return [_run(connection, step, graphs) for step, graphs in sorted(steps.items())]


def _run(
    connection: sqlite3.Connection, step: int, graphs: Sequence[Graph]
) -> tuple[Run, Children]:
    ranks: dict[int, Rank] = {}
    children: dict[int, dict[str, dict[str, int]]] = {}
    codes = {"module": int(Kind.MODULE), "forward": int(Direction.FORWARD)}
    for graph in graphs:
        rows = connection.execute(_NODES, {**codes, "graph": graph.graph_id})
        nodes = {one.node: one for one in map(_node, rows)}
        tensors: dict[int, list[Tensor]] = {}
        for row in connection.execute(_TENSORS, (graph.first, graph.last)):
            one = _tensor(row)
            tensors.setdefault(one.node, []).append(one)
        calls: dict[str, int] = {}
        own = children.setdefault(graph.rank, {})
        for parent, stem, kind, count in connection.execute(
            _CALLS, (graph.graph_id, int(Direction.FORWARD))
        ):
            stem, count = text(stem), integer(count)
            if kind == Kind.API:
                calls[stem] = calls.get(stem, 0) + count
            else:
                stem = stem.rpartition(".")[2]  # the class
            above = nodes.get(parent)
            if above is not None and above.kind == Kind.MODULE:
                made = own.setdefault(above.name, {})
                made[stem] = made.get(stem, 0) + count
        ranks[graph.rank] = Rank(graph.rank, nodes, tensors, calls)
    return Run(step, ranks), children


def _node(row: tuple[Any, ...]) -> Node:
    node, kind, stem, direction, call, is_outside = row
    return Node(
        integer(node, 0, MAX_NODE),
        stored_name(kind, stem, direction, call),
        text(stem),
        integer(kind, 0, max(Kind)),
        integer(direction, 0, max(Direction)),
        optional_integer(call),
        bool(is_outside),
    )


def _tensor(row: tuple[Any, ...]) -> Tensor:
    flags = integer(row[10])
    largest, least, mean, norm = (
        number(one, flags & 1 << bit) for bit, one in enumerate(row[6:10])
    )
    maker_id, maker_ordinal = (optional_integer(one, 0, MAX_NODE) for one in row[14:16])
    is_made = maker_id is not None and maker_ordinal is not None
    return Tensor(
        node=integer(row[0], 0, MAX_NODE),
        ordinal=integer(row[1]),
        section=integer(row[2]),
        # The same few texts stand in all rows.
        name=intern(text(row[3])),
        dtype=intern(optional_text(row[4]) or ""),
        shape=intern(optional_text(row[5]) or ""),
        largest=largest,
        least=least,
        mean=mean,
        norm=norm,
        sketch=sketch_in(row[11], row[12]),
        maker=optional_integer(row[13]),
        made_at=(maker_id or 0, maker_ordinal or 0) if is_made else None,
        maker_name=optional_text(row[16]),
    )


def sketch_in(stored: object, left_out: object) -> Any:
    """The sketch; None where there is none, or not of all elements."""
    if stored is None or left_out != 0:
        return None
    if not isinstance(stored, bytes) or len(stored) != 4 * NUMBERS:
        raise DamagedError(f"a sketch does not hold {NUMBERS} numbers")
    found = np.frombuffer(stored, "<f4")
    return found if np.isfinite(found).all() else None
