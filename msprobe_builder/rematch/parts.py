"""Nodes of a stored graph in the form that matching and measuring take: a tree with its table."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import nan, prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.texts import Texts
from msprobe_builder.database.problems import DamagedError
from msprobe_builder.database.read.cells import UINT32
from msprobe_builder.database.read.graphs import Graph
from msprobe_builder.database.read.parts import (
    ParameterRow,
    read_node_rows,
    read_parameter_rows,
    read_unrecorded,
)
from msprobe_builder.database.write.merged import StoredMerge, read_merge
from msprobe_builder.database.write.texts import StoredTexts
from msprobe_builder.dump.construct import Construct
from msprobe_builder.dump.names import ROOT, Direction, Kind, Name, format_name
from msprobe_builder.dump.parameter_columns import ALL_MISSING, ParameterKind
from msprobe_builder.dump.parameters import Parameters
from msprobe_builder.dump.read import Dump
from msprobe_builder.dump.stack import Stacks
from msprobe_builder.graph.parameter_table import (
    ParameterTable,
    SketchRows,
    order_parameters,
)
from msprobe_builder.graph.provenance import Provenance
from msprobe_builder.graph.side import Side
from msprobe_builder.graph.tree import Tree
from msprobe_builder.sketch.file import read_sketches
from msprobe_builder.sketch.layout import NAME as SKETCHES

Int = NDArray[np.int64]

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
    connection: sqlite3.Connection, graph: Graph, nodes: Iterable[int], texts: StoredTexts
) -> Part:
    """Load the given nodes with their parameters."""
    runs = list(_runs(sorted(nodes)))
    ids, tree = load_tree(connection, graph, runs, texts)
    table = _read_table(connection, graph, runs, tree, ids, texts)
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


def load_tree(
    connection: sqlite3.Connection,
    graph: Graph,
    runs: list[tuple[int, int]],
    texts: StoredTexts,
) -> tuple[Int, Tree]:
    """Ids and hierarchy of the nodes from the first to the last of each run."""
    rows = read_node_rows(connection, runs)
    ids = np.array([0, *(row.node for row in rows)], dtype=np.int64)
    index: dict[int | None, int] = {node: place for place, node in enumerate(ids.tolist())}
    text = texts.load(row.stem for row in rows)
    values = texts.texts.values
    parsed = [Name(Kind.MODULE, ROOT, Direction.NONE, 0)]
    parsed += [Name(row.kind, values[text[row.stem]], row.direction, row.call) for row in rows]
    ends = np.array([ids[-1], *(row.subtree_end for row in rows)], dtype=np.int64)
    parent = np.array([-1, *(index.get(row.parent, 0) for row in rows)], dtype=np.int64)
    without = {*read_unrecorded(connection, runs), 0, graph.first}
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
    """DamagedError unless every subtree lies within those it begins in: others never end."""
    open_ends: list[int] = []
    for node, end in enumerate(subtree_end.tolist()):
        while open_ends and open_ends[-1] < node:
            open_ends.pop()
        if end < node or (open_ends and end > open_ends[-1]):
            raise DamagedError(f"the subtree of node {node} ends at {end}")
        open_ends.append(end)


def _read_table(
    connection: sqlite3.Connection,
    graph: Graph,
    runs: list[tuple[int, int]],
    tree: Tree,
    ids: Int,
    texts: StoredTexts,
) -> ParameterTable:
    rows = read_parameter_rows(connection, runs)
    text = texts.load(
        number for row in rows for number in (row.name, row.type, row.value, row.dtype, row.shape)
    )
    parameters = Parameters(texts.texts)
    index = {node: place for place, node in enumerate(ids.tolist())}
    for row in rows:
        if row.node not in index:
            raise DamagedError(f"a parameter belongs to node {row.node}, which is missing")
        _append(parameters, index[row.node], row, text, texts.texts)
    # Every node has a record here, also those that the dump had none of.
    table = order_parameters(replace(tree, record=np.arange(len(tree))), parameters)
    return replace(
        table,
        ordinal=np.array([row.ordinal for row in rows], dtype=np.int64),
        sketched=_sketched([row.sketch for row in rows], Path(graph.dump_dir)),
    )


def _sketched(numbers: list[int | None], directory: Path) -> SketchRows | None:
    """The sketches of some rows, while the file that they were read from is there."""
    if all(one is None for one in numbers):
        return None
    try:
        sketches = read_sketches(directory / SKETCHES, UINT32)
    except BuildError:
        return None
    if sketches is None:
        return None
    row = np.array([-1 if one is None else one for one in numbers], dtype=np.int64)
    return SketchRows(sketches, np.where(row < sketches.starts[-1], row, -1))


def _append(
    parameters: Parameters,
    node: int,
    row: ParameterRow,
    text: dict[int | None, int],
    texts: Texts,
) -> None:
    place = len(parameters)
    type_id, value_id = text[row.type], text[row.value]
    dtype_id, shape_id, missing, numel = text[row.dtype], text[row.shape], ALL_MISSING, nan
    if row.is_tensor:
        missing = sum(
            (number is None and not row.nan_flags >> bit & 1) << bit
            for bit, number in enumerate(row.statistics)
        )
        numel = _numel(texts.values[shape_id]) if shape_id >= 0 else nan
        if row.md5 is not None:
            parameters.md5[place] = row.md5
        if row.file is not None:
            parameters.file[place] = row.file
    elif type_id >= 0 and texts.values[type_id] in _SHAPE_LIKE:
        shape_id = value_id
    parameters.append(
        node,
        row.section,
        text[row.name],
        ParameterKind(
            row.is_tensor,
            type_id,
            dtype_id,
            shape_id,
            value_id,
            -1 if row.requires_grad is None else int(row.requires_grad),
            numel,
        ),
        [
            nan if number is None else number
            for bit, number in enumerate(row.statistics)
            if not missing >> bit & 1
        ],
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


def _dump(graph: Graph, texts: Texts) -> Dump:
    """What measuring wants to know of a dump: where its files lie."""
    return Dump(
        directory=Path(graph.dump_dir),
        task="",
        level=None,
        framework=None,
        tensor_dir=None if graph.tensor_dir is None else Path(graph.tensor_dir),
        records={},
        recomputed=frozenset(),
        parameters=Parameters(texts),
        construct=Construct({}, None, 0),
        stacks=Stacks(),
        malformed=(),
        twice=(),
    )
