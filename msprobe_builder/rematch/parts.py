"""Nodes of a stored graph in the form that matching and measuring take: a tree with its table."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from math import nan, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.database.write.merged import StoredMerge, read_merge
from msprobe_builder.dump.construct import Construct
from msprobe_builder.dump.names import ROOT, Direction, Kind, Name, format_name
from msprobe_builder.dump.parameters import ALL_MISSING, ParameterKind, Parameters
from msprobe_builder.dump.read import Dump
from msprobe_builder.dump.stack import Stacks
from msprobe_builder.graph.parameter_table import ParameterTable, order_parameters
from msprobe_builder.graph.provenance import Provenance
from msprobe_builder.graph.side import Side
from msprobe_builder.graph.tree import Tree
from msprobe_builder.rematch.graphs import StoredGraph
from msprobe_builder.rematch.texts import StoredTexts

Int = NDArray[np.int64]

_NODE = "SELECT node_id, parent_id, subtree_end, kind, stem_id, direction, call FROM node"
_TENSOR = (
    "SELECT node_id, ordinal, section, name_id, type_id, NULL, dtype_id, shape_id, requires_grad,"
    " max, min, mean, norm, nan_flags, md5, file FROM tensor"
)
_ARGUMENT = "SELECT node_id, ordinal, section, name_id, type_id, value_id FROM argument"
_TENSOR_COLUMNS = 16
# Their value takes part in matching like a shape.
_SHAPE_LIKE = ("torch.Size", "slice")


@dataclass(frozen=True)
class Part:
    """Some nodes of a graph in execution order, below a root of their own at index 0.

    ``nodes`` holds their ids in the database, 0 for that root.
    """

    nodes: Int
    side: Side

    def index(self, nodes: Iterable[int]) -> Int:
        """Indices of nodes given by id, which must be among them."""
        return np.searchsorted(self.nodes, np.fromiter(nodes, np.int64))


def load_part(
    connection: sqlite3.Connection, graph: StoredGraph, nodes: Iterable[int], texts: StoredTexts
) -> Part:
    """Load the given nodes with their parameters."""
    runs = list(_runs(sorted(nodes)))
    ids, tree = load_tree(connection, graph, runs, texts)
    table = _read_table(connection, runs, tree, ids, texts)
    side = Side(_dump(graph, texts.texts), tree, table)
    merge = read_merge(connection, graph.first, graph.last, runs)
    return Part(ids, side if merge is None else _merged(side, ids, merge))


def _merged(side: Side, ids: Int, merge: StoredMerge) -> Side:
    """A side of which it is known what its rows were merged of."""
    nodes, ordinals = ids[side.table.node].tolist(), side.table.ordinal.tolist()
    row = {key: place for place, key in enumerate(zip(nodes, ordinals, strict=True))}
    provenance = Provenance(
        assemblies={row[key]: one for key, one in merge.assemblies.items() if key in row},
        unknown={row[key]: reason for key, reason in merge.unknown.items() if key in row},
        apart={row[key]: several for key, several in merge.apart.items() if key in row},
    )
    return replace(side, provenance=provenance)


def _runs(nodes: list[int]) -> Iterator[tuple[int, int]]:
    """First and last of each run of consecutive numbers."""
    if not nodes:
        return
    first = last = nodes[0]
    for node in nodes[1:]:
        if node > last + 1:
            yield first, last
            first = node
        last = node
    yield first, last


def _rows(
    connection: sqlite3.Connection, select: str, runs: list[tuple[int, int]]
) -> Iterator[tuple[Any, ...]]:
    query = f"{select} WHERE node_id BETWEEN ? AND ?"
    return chain.from_iterable(connection.execute(query, run) for run in runs)


def load_tree(
    connection: sqlite3.Connection,
    graph: StoredGraph,
    runs: list[tuple[int, int]],
    texts: StoredTexts,
) -> tuple[Int, Tree]:
    """Ids and hierarchy of the nodes from the first to the last of each run."""
    rows = sorted(_rows(connection, _NODE, runs))
    ids = np.array([0, *(row[0] for row in rows)], dtype=np.int64)
    index = {node: place for place, node in enumerate(ids.tolist())}
    text = texts.load(row[4] for row in rows)
    values = texts.texts.values
    parsed = [Name(Kind.MODULE, ROOT, Direction.NONE, 0)]
    parsed += [
        Name(Kind(kind), values[text[stem]], Direction(direction), call or 0)
        for _, _, _, kind, stem, direction, call in rows
    ]
    ends = np.array([ids[-1], *(row[2] for row in rows)], dtype=np.int64)
    parent = np.array([-1, *(index.get(row[1], 0) for row in rows)], dtype=np.int64)
    without = {row[0] for row in _rows(connection, "SELECT node_id FROM unrecorded", runs)}
    without |= {0, graph.first}
    size = len(ids)
    subtree_end = np.searchsorted(ids, ends, side="right") - 1
    _check_nested(subtree_end)
    tree = Tree(
        names=[format_name(name) for name in parsed],
        parsed=parsed,
        parent=parent,
        subtree_end=subtree_end,
        depth=np.zeros(size, dtype=np.int64),
        micro_step=np.zeros(size, dtype=np.int64),
        record=np.where(np.isin(ids, list(without)), -1, np.arange(size)),
        is_recompute=np.zeros(size, dtype=bool),
        micro_steps=1,
    )
    return ids, tree


def _check_nested(subtree_end: Int) -> None:
    """ValueError unless every subtree lies within those it begins in: others never end."""
    open_ends: list[int] = []
    for node, end in enumerate(subtree_end.tolist()):
        while open_ends and open_ends[-1] < node:
            open_ends.pop()
        if end < node or (open_ends and end > open_ends[-1]):
            raise ValueError(f"the subtree of node {node} ends at {end}")
        open_ends.append(end)


def _read_table(
    connection: sqlite3.Connection,
    runs: list[tuple[int, int]],
    tree: Tree,
    ids: Int,
    texts: StoredTexts,
) -> ParameterTable:
    arguments = _rows(connection, _ARGUMENT, runs)
    rows = sorted([*_rows(connection, _TENSOR, runs), *arguments], key=lambda row: row[:2])
    text = texts.load(chain.from_iterable(row[3:8] for row in rows))
    parameters = Parameters(texts.texts)
    index = {node: place for place, node in enumerate(ids.tolist())}
    for row in rows:
        _append(parameters, index[row[0]], row, text, texts.texts)
    # Every node has a record here, also those that the dump had none of.
    table = order_parameters(replace(tree, record=np.arange(len(tree))), parameters)
    return replace(table, ordinal=np.array([row[1] for row in rows], dtype=np.int64))


def _append(
    parameters: Parameters,
    node: int,
    row: tuple[Any, ...],
    text: dict[int | None, int],
    texts: Texts,
) -> None:
    _, _, section, name, kind, value, *rest = row
    is_tensor = len(row) == _TENSOR_COLUMNS
    place = len(parameters)
    type_id, value_id = text[kind], text[value]
    shape_id, dtype_id, missing, numel = -1, -1, ALL_MISSING, nan
    requires_grad: int | None = None
    statistics: list[float | None] = [None] * 4
    if is_tensor:
        dtype, shape, requires_grad, *statistics, flags, md5, file = rest
        dtype_id, shape_id = text[dtype], text[shape]
        unknown = (number is None and not flags >> bit & 1 for bit, number in enumerate(statistics))
        missing = sum(is_missing << bit for bit, is_missing in enumerate(unknown))
        numel = _numel(texts.values[shape_id]) if shape_id >= 0 else nan
        if md5 is not None:
            parameters.md5[place] = str(md5)
        if file is not None:
            parameters.file[place] = str(file)
    elif type_id >= 0 and texts.values[type_id] in _SHAPE_LIKE:
        shape_id = value_id
    parameters.append(
        node,
        section,
        text[name],
        ParameterKind(
            is_tensor,
            type_id,
            dtype_id,
            shape_id,
            value_id,
            -1 if requires_grad is None else requires_grad,
            numel,
        ),
        [nan if number is None else number for number in statistics],
        missing,
    )


def _numel(shape: str) -> float:
    """Elements of a shape as Python prints it; NaN when it is none."""
    try:
        sizes = json.loads(shape)
    except (ValueError, RecursionError):
        return nan
    if not isinstance(sizes, list) or any(type(size) is not int for size in sizes):
        return nan
    return float(prod(map(float, sizes)))


def _dump(graph: StoredGraph, texts: Texts) -> Dump:
    """What measuring wants to know of a dump: where its files lie."""
    return Dump(
        directory=graph.dump_dir,
        task="",
        level=None,
        framework=None,
        tensor_dir=graph.tensor_dir,
        records={},
        recomputed=frozenset(),
        parameters=Parameters(texts),
        construct=Construct({}, None, 0),
        stacks=Stacks(),
        malformed=(),
        twice=(),
    )
