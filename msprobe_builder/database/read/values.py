"""What each node puts out, in one number."""

from __future__ import annotations

import sqlite3

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import Section
from msprobe_builder.database.read.cells import integer, number, text
from msprobe_builder.database.read.graphs import Graph

Float = NDArray[np.float64]


def read_norms(connection: sqlite3.Connection, graph: Graph) -> Float:
    """The L2 norm of every node's first output that has one, -1 without; empty without any.

    Raises DamagedError where something else than a number stands there.
    """
    rows = connection.execute(
        "SELECT node_id - :first, norm, nan_flags & 8, min(ordinal) FROM tensor"
        " WHERE node_id BETWEEN :first AND :last AND section = :output"
        " AND (norm IS NOT NULL OR nan_flags & 8)"
        " GROUP BY node_id",
        {"first": graph.first, "last": graph.last, "output": int(Section.OUTPUT)},
    ).fetchall()
    if not rows:
        return np.empty(0)
    norms = np.full(graph.count, -1.0)
    norms[[row[0] for row in rows]] = [number(norm, is_nan) for _, norm, is_nan, _ in rows]
    return norms


def read_output_kinds(connection: sqlite3.Connection, graph: Graph) -> list[str]:
    """Shape and type of every node's first output, as ``[2, 16] torch.float32``; empty without."""
    rows = connection.execute(
        "SELECT node_id - :first, shape.value, dtype.value, min(ordinal) FROM tensor"
        " JOIN text AS shape ON shape.text_id = shape_id"
        " JOIN text AS dtype ON dtype.text_id = dtype_id"
        " WHERE node_id BETWEEN :first AND :last AND section = :output GROUP BY node_id",
        {"first": graph.first, "last": graph.last, "output": int(Section.OUTPUT)},
    )
    kinds = [""] * graph.count
    for node, shape, dtype, _ in rows:
        kinds[integer(node)] = f"{text(shape)} {text(dtype)}"
    return kinds
