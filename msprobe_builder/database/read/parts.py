"""Rows of runs of nodes as a graph is rebuilt from them; values checked, texts by number."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from msprobe_builder.base.codes import Direction, Kind, Section
from msprobe_builder.database.read.cells import (
    MAX_NODE,
    flag,
    integer,
    number,
    optional_integer,
    optional_text,
)

Run = tuple[int, int]  # first and last of consecutive nodes

_NODE = "SELECT node_id, parent_id, subtree_end, kind, stem_id, direction, call FROM node"
_TENSOR = (
    "SELECT node_id, ordinal, section, name_id, type_id, dtype_id, shape_id, requires_grad,"
    " nan_flags, md5, file, sketch, max, min, mean, norm FROM tensor"
)
_ARGUMENT = "SELECT node_id, ordinal, section, name_id, type_id, value_id FROM argument"


class NodeRow(NamedTuple):
    """A node; ``stem`` is the number of a text."""

    node: int
    parent: int | None
    subtree_end: int
    kind: Kind
    stem: int
    direction: Direction
    call: int


class ParameterRow(NamedTuple):
    """A tensor or another argument; names, types, shapes and values are numbers of texts."""

    node: int
    ordinal: int
    section: int
    name: int | None
    type: int | None
    value: int | None = None
    is_tensor: bool = False
    dtype: int | None = None
    shape: int | None = None
    requires_grad: bool | None = None
    nan_flags: int = 0
    md5: str | None = None
    file: str | None = None
    sketch: int | None = None  # number of its row in sketch.bin
    statistics: Sequence[float | None] = (None,) * 4  # in the order of STATISTICS


def read_node_rows(connection: sqlite3.Connection, runs: Iterable[Run]) -> list[NodeRow]:
    """Nodes in execution order."""
    rows = [
        NodeRow(
            integer(node, 0, MAX_NODE),
            optional_integer(parent, 0, MAX_NODE),
            integer(end, 0, MAX_NODE),
            Kind(integer(kind, 0, len(Kind) - 1)),
            integer(stem, 0, MAX_NODE),
            Direction(integer(direction, 0, len(Direction) - 1)),
            optional_integer(call) or 0,
        )
        for node, parent, end, kind, stem, direction, call in _rows(connection, _NODE, runs)
    ]
    return sorted(rows)


def read_unrecorded(connection: sqlite3.Connection, runs: Iterable[Run]) -> set[int]:
    """Nodes that the dump has no record of."""
    return {row[0] for row in _rows(connection, "SELECT node_id FROM unrecorded", runs)}


def read_parameter_rows(connection: sqlite3.Connection, runs: Sequence[Run]) -> list[ParameterRow]:
    """Tensors and arguments of the nodes, those of one node in the order of its record."""
    rows = [*_tensors(connection, runs), *_arguments(connection, runs)]
    return sorted(rows, key=_place)


def read_errors(connection: sqlite3.Connection, first: int, last: int) -> list[float | None]:
    """Error of each node from one to another."""
    rows = connection.execute(
        "SELECT error FROM node WHERE node_id BETWEEN ? AND ? ORDER BY node_id", (first, last)
    )
    return [number(error) for (error,) in rows]


def _place(row: ParameterRow) -> tuple[int, int]:
    return row.node, row.ordinal


def _tensors(connection: sqlite3.Connection, runs: Sequence[Run]) -> Iterator[ParameterRow]:
    for (
        node, ordinal, section, name, kind, dtype, shape, requires_grad, nan_flags, md5, file,
        sketch, *statistics,
    ) in _rows(connection, _TENSOR, runs):  # fmt: skip
        yield ParameterRow(
            *_key(node, ordinal, section),
            name=_text_id(name),
            type=_text_id(kind),
            is_tensor=True,
            dtype=_text_id(dtype),
            shape=_text_id(shape),
            requires_grad=flag(requires_grad),
            nan_flags=integer(nan_flags),
            md5=optional_text(md5),
            file=optional_text(file),
            sketch=optional_integer(sketch),
            statistics=[number(value) for value in statistics],
        )


def _arguments(connection: sqlite3.Connection, runs: Sequence[Run]) -> Iterator[ParameterRow]:
    rows = _rows(connection, _ARGUMENT, runs)
    for node, ordinal, section, name, kind, value in rows:
        place = _key(node, ordinal, section)
        yield ParameterRow(*place, _text_id(name), _text_id(kind), _text_id(value))


def _key(node: object, ordinal: object, section: object) -> tuple[int, int, int]:
    return (
        integer(node, 0, MAX_NODE),
        integer(ordinal, 0, MAX_NODE),
        integer(section, 0, len(Section) - 1),
    )


def _text_id(value: object) -> int | None:
    return optional_integer(value, 0, MAX_NODE)


def _rows(
    connection: sqlite3.Connection, select: str, runs: Iterable[Run]
) -> Iterator[tuple[Any, ...]]:
    query = f"{select} WHERE node_id BETWEEN ? AND ?"
    return chain.from_iterable(connection.execute(query, run) for run in runs)
