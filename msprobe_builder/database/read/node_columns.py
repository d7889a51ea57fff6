"""What tables ``node`` and ``match`` say of every node of a graph, as columns.

A file keeps them packed for its large graphs, as they were when the build ended. They hold as long
as SQLite has counted no change of the file since; after that, the tables are read.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.database.problems import DamagedError
from msprobe_builder.database.read.cells import INT32, text
from msprobe_builder.database.read.graphs import NPU, Graph

Ints = NDArray[np.integer[Any]]
Columns = dict[str, NDArray[Any]]

# Whole numbers of a node and of its match, small ones where possible: they are written as text.
_COLUMNS = {
    "stem_id": "stem_id",
    "direction": "direction",
    "call": "ifnull(call, 0)",
    "kind": "kind",
    "below": "subtree_end - node_id",
    "micro_step": "micro_step",
    "grade": "grade",
    "overflow": "ifnull(overflow, 0)",
    "to_partner": "ifnull({partner} - node_id, 0)",
    "source": "ifnull(source, 0)",
    "certainty": "CAST(round(ifnull(certainty, 0) * 100) AS INTEGER)",
}
_BLOCK = 20_000  # nodes in a text: some 800 kB, which processors keep close
_ERROR_SCALE = 2**40  # an error is written as a whole number of this fraction, none as -1
_TYPES = ("|u1", "<i2", "<i4", "<f4")
PACKED_AT = "packed_at"  # key of meta: how many changes SQLite had counted then


def read_node_columns(
    connection: sqlite3.Connection, graph: Graph, changes: int | None = None
) -> Columns:
    """One element per node: whole numbers by the names above, and ``error``, -1 without one.

    ``changes`` is what SQLite has counted in the header of the file; without it nothing that is
    packed is believed.
    """
    found = None if changes is None else read_packed(connection, graph, changes)
    return _from_tables(connection, graph) if found is None else found


def _from_tables(connection: sqlite3.Connection, graph: Graph) -> Columns:
    """SQLite writes blocks of the tables into texts.

    Fetched row by row, each of two million values would become a Python object, and while that
    goes on no other request is answered.
    """
    own, partner = ("npu_node", "bench_node") if graph.side == NPU else ("bench_node", "npu_node")
    columns = ", ".join(f"{value} AS c_{name}" for name, value in _COLUMNS.items())
    names = [f"c_{name}" for name in _COLUMNS]
    places = " ".join(["%d"] * (len(names) + 1))
    # What is no whole number gives a sum of another type; a text is greater than any number.
    types = ", ".join(f"typeof(sum({name}))" for name in names)
    query = (
        f"SELECT count(*), typeof(max(error)), {types}, group_concat("
        f"printf('{places}', {', '.join(names)}, ifnull(error * {_ERROR_SCALE}, -1)), ' ')"
        f" FROM (SELECT {columns.format(partner=partner)}, error FROM node"
        f" LEFT JOIN match ON {own} = node_id WHERE node_id BETWEEN ? AND ? ORDER BY node_id)"
    )
    table = np.empty((len(names), graph.count), np.int32)
    errors = np.empty(graph.count, np.float32)
    for at in range(0, graph.count, _BLOCK):
        end = min(at + _BLOCK, graph.count)
        first, last = graph.first + at, graph.first + end - 1
        count, error_type, *types_of_sums, written = connection.execute(
            query, (first, last)
        ).fetchone()
        if count != end - at:
            raise DamagedError(f"{count} of the nodes {first} to {last} are there")
        if error_type not in ("real", "integer", "null") or set(types_of_sums) != {"integer"}:
            raise DamagedError("a column of table node or match holds something else than numbers")
        *whole, error = np.fromstring(written, np.int64, sep=" ").reshape(count, -1).T
        for column, values in zip(table, whole, strict=True):
            if int(values.min()) < -INT32 or int(values.max()) > INT32:
                raise DamagedError(f"a value of node is outside {-INT32} … {INT32}")
            column[at:end] = values
        errors[at:end] = np.where(error < 0, -1.0, error / _ERROR_SCALE)
    return {**dict(zip(_COLUMNS, table, strict=True)), "error": errors}


def packed(columns: Columns) -> list[tuple[str, str, bytes]]:
    """Name, type and compressed values of each column, as narrow as its numbers."""
    result = []
    for name, values in columns.items():
        kind = "<f4" if name == "error" else _narrowest(values)
        result.append((name, kind, zlib.compress(values.astype(kind).tobytes())))
    return result


def _narrowest(values: NDArray[Any]) -> str:
    low, high = int(values.min()), int(values.max())
    if low >= 0 and high < 2**8:
        return "|u1"
    return "<i2" if low >= -(2**15) and high < 2**15 else "<i4"


def read_packed(
    connection: sqlite3.Connection,
    graph: Graph,
    changes: int,
    wanted: Iterable[str] = (*_COLUMNS, "error"),
) -> Columns | None:
    """The wanted columns as the file keeps them packed; None where it does not, or no more."""
    names = set(wanted)
    rows = connection.execute(
        "SELECT name, type, packed FROM packed_column JOIN meta ON key = ? AND meta.value = ?"
        " WHERE graph_id = ? AND name IN (SELECT value FROM json_each(?))",
        (PACKED_AT, str(changes), graph.graph_id, json.dumps(sorted(names))),
    ).fetchall()
    if not rows:
        return None
    found = {text(name): _column(graph, text(name), kind, value) for name, kind, value in rows}
    if found.keys() != names:
        raise DamagedError("a packed column of a graph is missing")
    return found


def _column(graph: Graph, name: str, kind: object, value: object) -> NDArray[Any]:
    if kind not in _TYPES or not isinstance(value, bytes) or (kind == "<f4") != (name == "error"):
        raise DamagedError(f"packed column {name} has a type that none has")
    size = graph.count * np.dtype(str(kind)).itemsize
    stream = zlib.decompressobj()
    try:
        values = stream.decompress(value, size + 1)  # no more, whatever it pretends to hold
    except zlib.error:
        raise DamagedError(f"packed column {name} cannot be unpacked") from None
    if len(values) != size:
        raise DamagedError(f"packed column {name} does not hold {graph.count} values")
    return np.frombuffer(values, str(kind))
