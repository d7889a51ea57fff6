"""The parameters of a graph as numpy columns, ordered like its nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Parameters, Section
from msprobe_builder.graph.tree import Tree
from msprobe_builder.sketch.file import Sketches

Int = NDArray[np.int64]
Narrow = NDArray[np.int32]


@dataclass(frozen=True)
class Origins:
    """Where tensors came from, as it was recorded; one element per row.

    Rows with equal ``same`` (-1 unknown) are one tensor; ``maker`` is the row that made it, -1
    where none did. Of ``settled`` rows nothing remains to be guessed; those that ``hands_on`` are
    what their call was given. ``kind`` is a Maker of flow_layout.py, ``name`` an index of ``names``
    where the maker is one parameter, buffer or gradient, else -1.
    """

    same: Int
    maker: Int
    settled: NDArray[np.bool_]
    hands_on: NDArray[np.bool_]
    kind: NDArray[np.uint8]
    name: NDArray[np.int32]
    names: list[str]


@dataclass(frozen=True)
class SketchRows:
    """Which row of a file of sketches each row of a table has, -1 for none."""

    sketches: Sketches
    row: Int


@dataclass(frozen=True)
class ParameterTable:
    """One element per parameter, ordered by node and then as recorded.

    ``position`` counts the parameters of one section of one node; ``ordinal`` all of a node.
    ``statistics`` are float64 of shape (4, n): max, min, mean, norm; bit i of ``missing`` says
    that statistic i was not recorded. Text columns hold ids, -1 where there is none. Columns that
    nobody multiplies may be of a narrower type than 64 bits.
    """

    node: Int
    ordinal: Int
    section: Int
    position: Int
    is_tensor: NDArray[np.bool_]
    name_id: Int
    type_id: Int
    dtype_id: Int
    shape_id: Int
    value_id: Int
    requires_grad: Int
    missing: Int
    statistics: NDArray[np.float64]
    numel: NDArray[np.float64]
    md5: dict[int, str]
    file: dict[int, str]
    # What was recorded of them besides; not of parts put together.
    origins: Origins | None = None
    sketched: SketchRows | None = None

    def __len__(self) -> int:
        return len(self.node)

    @cached_property
    def first(self) -> Int:
        """By node its first row, or where that would be, and behind the last node the end."""
        return _firsts(self.node)

    @cached_property
    def given(self) -> tuple[Narrow, Narrow]:
        """Rows of the tensors that nodes are given, without parameters; by node the first of them.

        As of ``first``, but that what comes behind the last node that is given some is left out.
        """
        rows = np.flatnonzero(self.is_tensor & (self.section == Section.INPUT))
        return rows.astype(np.int32), _firsts(self.node[rows]).astype(np.int32)

    @cached_property
    def inputs(self) -> tuple[Narrow, Narrow]:
        """By node the place of the first tensor among its inputs, and where all inputs end.

        What a merge of ranks has left out keeps its place.
        """
        rows = np.flatnonzero(self.section == Section.INPUT)
        node, place = self.node[rows], self.position[rows]
        end = np.zeros(1 + int(self.node[-1]) if len(self) else 0, dtype=np.int32)
        is_last = np.diff(node, append=-1) != 0
        end[node[is_last]] = place[is_last] + 1
        begin = end.copy()
        node, place = (one[self.is_tensor[rows]] for one in (node, place))
        is_first = np.diff(node, prepend=-1) != 0
        begin[node[is_first]] = place[is_first]
        return begin, end


def _firsts(node: Int) -> Int:
    """By node where its first stands in a column in the order of nodes, and the end."""
    return np.append(0, np.cumsum(np.bincount(node)))


# Columns with one element per row; the statistics have one row per statistic.
_OTHERS = ("md5", "file", "origins", "sketched")
_COLUMNS = tuple(field.name for field in fields(ParameterTable) if field.name not in _OTHERS)


_AS_RECORDED = (
    "is_tensor",
    "name_id",
    "type_id",
    "dtype_id",
    "shape_id",
    "value_id",
    "requires_grad",
    "missing",
    "numel",
)


# Of a million calls each byte of a row takes six megabytes.
_NARROW: dict[str, type[np.signedinteger[Any]]] = {
    **dict.fromkeys(("section", "requires_grad", "missing"), np.int8),
    **dict.fromkeys(("ordinal", "position"), np.int32),
    **dict.fromkeys(("name_id", "type_id", "dtype_id", "shape_id", "value_id"), np.int32),
}


def order_parameters(
    tree: Tree, parameters: Parameters, latest: ParameterTable | None = None
) -> ParameterTable:
    """Bring the parameters of a dump into the order of the tree's nodes.

    Those of records that are in no tree are left out.
    Columns equal to those of ``latest`` are the same arrays, which cannot be written to any more.
    """
    record = parameters.record
    last = max(int(tree.record.max(initial=-1)), int(record.max(initial=-1)))
    node_of_record = np.full(last + 1, -1, dtype=np.int64)
    with_record = tree.record >= 0
    node_of_record[tree.record[with_record]] = np.flatnonzero(with_record)
    node = node_of_record[record] if len(record) else np.empty(0, dtype=np.int64)
    order = np.argsort(node, kind="stable")
    order = order[int(np.count_nonzero(node < 0)) :]
    new_row = np.full(len(node), -1, dtype=np.int64)
    new_row[order] = np.arange(len(order))
    columns: dict[str, Any] = {}

    def keep(name: str, column: NDArray[Any]) -> None:
        column = column.astype(_NARROW.get(name, column.dtype), copy=False)
        columns[name] = column if latest is None else _once(column, getattr(latest, name))

    keep("node", node[order])
    keep("section", parameters.section[order])
    keep("ordinal", _running(columns["node"]))
    keep("position", positions(columns["node"], columns["section"]))
    for name in _AS_RECORDED:
        keep(name, getattr(parameters, name)[order])
    keep("statistics", parameters.statistic_columns(order))
    return ParameterTable(
        **columns,
        md5=_at(new_row, parameters.md5),
        file=_at(new_row, parameters.file),
    )


def _at(new_row: Int, of_row: Mapping[int, str]) -> dict[int, str]:
    """What is known of rows, by where they are now."""
    return {int(new_row[row]): text for row, text in of_row.items() if new_row[row] >= 0}


def _once(column: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    """The other column where both are equal bit by bit: 0 and -0 are equal numbers, NaN is none."""
    bits = np.dtype(f"u{column.itemsize}")
    if not np.array_equal(column.view(bits), other.view(bits)):
        return column
    other.flags.writeable = False
    return other


def _running(key: Int) -> Int:
    """0, 1, 2 … within each run of equal keys."""
    index = np.arange(len(key))
    starts = np.r_[True, key[1:] != key[:-1]] if len(key) else np.empty(0, dtype=bool)
    return index - np.maximum.accumulate(np.where(starts, index, 0)) if len(key) else index


def positions(node: Int, section: Int) -> Int:
    """Running number within (node, section); sections need not be contiguous in a record."""
    key = node * 4 + section
    order = np.argsort(key, kind="stable")
    position = np.empty(len(key), dtype=np.int64)
    position[order] = _running(key[order])
    return position


def concatenate(tables: Sequence[ParameterTable]) -> ParameterTable:
    """All rows of several tables, one table after the other; to be picked from with ``take``."""
    shift = np.cumsum([0, *(len(table) for table in tables)])
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(table, name) for table in tables], axis=-1)
        for name in _COLUMNS
    }
    return ParameterTable(
        **columns,
        md5=_shifted([table.md5 for table in tables], shift),
        file=_shifted([table.file for table in tables], shift),
    )


def take(table: ParameterTable, rows: Int, node: Int) -> ParameterTable:
    """The given rows as parameters of the given nodes, which must not decrease."""
    columns: dict[str, Any] = {name: getattr(table, name)[..., rows] for name in _COLUMNS}
    columns["node"] = node
    columns["ordinal"] = _running(node)
    columns["position"] = positions(node, columns["section"])
    picked = rows.tolist()
    return ParameterTable(
        **columns,
        md5={new: table.md5[old] for new, old in enumerate(picked) if old in table.md5},
        file={new: table.file[old] for new, old in enumerate(picked) if old in table.file},
    )


def _shifted(values: Sequence[dict[int, str]], shift: Int) -> dict[int, str]:
    return {
        row + int(start): value
        for own, start in zip(values, shift, strict=False)
        for row, value in own.items()
    }
