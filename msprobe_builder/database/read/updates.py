"""Weights as steps begin with them, from one step to the next."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from itertools import pairwise
from math import prod

import numpy as np

from msprobe_builder.base.texts import Texts
from msprobe_builder.database.read.cells import MAX_NODE, integer, optional_text, text
from msprobe_builder.database.read.evidence import sketch_in
from msprobe_builder.database.read.graphs import Graph, read_graphs
from msprobe_builder.dump.shapes import LARGEST, parse_numbers
from msprobe_builder.graph.floating import epsilons
from msprobe_builder.sketch.definition import NUMBERS
from msprobe_builder.verdict.steps.updates import Kept

_WEIGHTS = """
SELECT name.value, node_id, shape.value, dtype.value, numbers, left_out
FROM evidence JOIN tensor USING (node_id, ordinal)
JOIN text AS name ON name.text_id = maker_name_id
LEFT JOIN text AS shape ON shape.text_id = shape_id
LEFT JOIN text AS dtype ON dtype.text_id = dtype_id
WHERE node_id BETWEEN ? AND ? ORDER BY node_id, ordinal
"""


def read_steps(connection: sqlite3.Connection) -> Iterator[tuple[int, int, Kept, Kept]]:
    """A step, its rank, and the weights of both runs before and behind the one before it.

    Only where both steps were compared, one directly behind the other.
    """
    ranks: dict[int, dict[int, list[Graph]]] = {}
    for graph in read_graphs(connection):
        ranks.setdefault(graph.rank, {}).setdefault(graph.step, []).append(graph)
    for rank, steps in sorted(ranks.items()):
        compared = [step for step, sides in sorted(steps.items()) if len(sides) == 2]
        held: tuple[int, Kept] | None = None  # a step is read once
        for before, after in pairwise(compared):
            if after != before + 1:
                continue
            old = held[1] if held and held[0] == before else _kept(connection, steps[before])
            new = _kept(connection, steps[after])
            held = after, new
            if old.names and new.names:
                yield after, rank, old, new


def _kept(connection: sqlite3.Connection, sides: list[Graph]) -> Kept:
    """The weights of one step and rank that both sides have whole."""
    debug, reference = (
        {text(row[0]): row[1:] for row in connection.execute(_WEIGHTS, (graph.first, graph.last))}
        for graph in sorted(sides, key=lambda one: one.side)
    )
    names, nodes, elements, numbers = list[str](), list[int](), list[int](), []
    texts, types = Texts(), list[tuple[int, int]]()
    for name, (node, shape, dtype, own, left_out) in debug.items():
        if name not in reference:
            continue
        _, other_shape, other_dtype, there, left_out_there = reference[name]
        sketches = sketch_in(own, left_out), sketch_in(there, left_out_there)
        size = parse_numbers(optional_text(shape) or "") if shape == other_shape else None
        count = prod(size) if size else 0
        if any(one is None for one in sketches) or not 0 < count <= LARGEST:
            continue
        names.append(name)
        nodes.append(integer(node, 0, MAX_NODE))
        elements.append(count)
        types.append(
            (texts.id(optional_text(dtype) or ""), texts.id(optional_text(other_dtype) or ""))
        )
        numbers.append(sketches)
    each = np.array(types, dtype=np.int64).reshape(-1, 2)
    unit = np.fmax(epsilons(each[:, 0], texts), epsilons(each[:, 1], texts))
    both = np.array(numbers, dtype=np.float64).reshape(-1, 2, NUMBERS).transpose(1, 0, 2)
    return Kept(names, np.array(nodes, np.int64), np.array(elements, np.int64), unit, both)
