"""The parameters of all tensor-parallel ranks of a stage, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameters import Section
from msprobe_builder.dump.shapes import parse_numbers, parse_shape
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.tree import Tree

_ROUNDED = 1e-6  # means and norms of the same elements in another order


class RankTables:
    """Questions about rows; the tables of all ranks have equal rows in equal order.

    ``keys`` tells tensors apart by what they look like on all ranks: dtype, number of elements and
    statistics. ``agree`` says of each row whether its statistics are equal on all ranks;
    ``is_even`` whether all its elements are equal besides, such as zeros.
    """

    def __init__(self, tree: Tree, tables: Sequence[ParameterTable], texts: Texts) -> None:
        self._tree, self._tables, self._texts = tree, tables, texts
        self._table = tables[0]
        self.count = len(tables)  # of ranks
        self._start = np.searchsorted(self._table.node, np.arange(len(tree) + 1)).tolist()
        # Asked for at every call, where elements of columns are slow.
        tensors = np.flatnonzero(self._table.is_tensor)
        self._tensors = tensors.tolist()
        self._first = np.searchsorted(tensors, self._start).tolist()
        self._section = self._table.section.tolist()
        self._shape_id = self._table.shape_id.tolist()
        self._shapes: dict[int, list[int]] = {}  # by id
        self.keys = _fingerprints(tables)
        self.agree = _agreement(tables)
        highest, lowest = self._table.statistics[:2]
        self._differing = _differing_types(tables)
        self.is_even = self.agree & (highest == lowest) & (self._table.numel > 1)

    def __len__(self) -> int:
        return len(self._table)

    def tensors(self, node: int, *sections: Section) -> list[int]:
        """Rows of a node's tensors in the given sections."""
        section = self._section
        rows = self._tensors[self._first[node] : self._first[node + 1]]
        return [row for row in rows if section[row] in sections]

    def node(self, row: int) -> int:
        """The node a row belongs to."""
        return int(self._table.node[row])

    def section(self, row: int) -> Section:
        """Where in its node a row belongs."""
        return Section(int(self._table.section[row]))

    def name(self, row: int) -> str:
        """The name of a parameter within its node."""
        return self._texts.values[int(self._table.name_id[row])]

    def shape(self, row: int) -> list[int]:
        """The shape on the first rank."""
        shape_id = self._shape_id[row]
        known = self._shapes.get(shape_id)
        if known is None:
            known = self._shapes[shape_id] = parse_shape(self._texts, shape_id)
        return known

    def parts(self, row: int) -> int:
        """How many different parts of a tensor the ranks hold, by its statistics.

        One where all agree. Where neighbours hold equal parts, as of keys and values of fewer heads
        than there are ranks, equal ones count once; otherwise there are as many as ranks.
        """
        own = [tuple(table.statistics[:, row].tolist()) for table in self._tables]
        runs = [len([*run]) for _, run in groupby(own)]
        is_even = len(runs) == len({*own}) and len({*runs}) == 1
        return len(runs) if is_even else self.count

    def is_missing(self, row: int) -> bool:
        """Whether a rank recorded no statistics of a tensor, or a merge before left them open."""
        return any(bool(np.isnan(table.statistics[:, row]).all()) for table in self._tables)

    def is_missing_somewhere(self, row: int) -> bool:
        """Whether some ranks recorded what others did not: then nothing tells if they agree."""
        return len({int(table.missing[row]) for table in self._tables}) > 1

    def uneven_dimension(self, row: int) -> int | None:
        """The only dimension in which the shapes of the ranks differ."""
        ids = {int(table.shape_id[row]) for table in self._tables}
        shapes = [parse_shape(self._texts, shape_id) for shape_id in ids]
        if len({len(shape) for shape in shapes}) != 1:
            return None
        uneven = [
            place for place, sizes in enumerate(zip(*shapes, strict=True)) if len(set(sizes)) > 1
        ]
        return uneven[0] if len(uneven) == 1 else None

    def is_whole_number(self, row: int) -> bool:
        """Whether a tensor holds integers or truth values."""
        dtype_id = self._table.dtype_id[row]
        name = self._texts.values[dtype_id].lower() if dtype_id >= 0 else ""
        return "int" in name or "bool" in name

    def like(self, row: int) -> list[int]:
        """Rows up to this one of as many elements, whose statistics are as near as rounding."""
        found = self._table.is_tensor[: row + 1] & (
            self._table.numel[: row + 1] == self._table.numel[row]
        )
        for table in self._tables:
            own = table.statistics[:, row, None]
            size = float(np.abs(own[:2]).max())
            allowed = np.array([[0.0], [0.0], [_ROUNDED * size], [_ROUNDED * float(own[3, 0])]])
            with np.errstate(invalid="ignore"):
                away = np.abs(table.statistics[:, : row + 1] - own)
                found &= (away <= allowed).all(axis=0)
        return [int(one) for one in np.flatnonzero(found)]

    def is_one(self, row: int) -> bool:
        """Whether all elements are 1, as of masks and new norms; no gradient begins so."""
        return bool(self.is_even[row] and self._table.statistics[0, row] == 1)

    def is_counting(self, row: int) -> bool:
        """Whether every rank has the numbers 0, 1, 2 … as far as the tensor goes."""
        highest, lowest, mean = self._table.statistics[:3, row]
        last = self._table.numel[row] - 1
        is_range = last > 0 and (highest, lowest, mean) == (last, 0, last / 2)
        return bool(self.agree[row]) and is_range

    def spans_overlap(self, row: int) -> bool:
        """Whether what some rank's elements span is also spanned by another's, though not all."""
        spans = sorted(
            (float(table.statistics[1, row]), float(table.statistics[0, row]))
            for table in self._tables
        )
        return any(low <= high for (_, high), (low, _) in pairwise(spans))

    def numbers(self, node: int) -> list[int]:
        """Whole-number arguments of a call in order."""
        values = self._texts.values
        found: list[int] = []
        for row in range(self._start[node], self._start[node + 1]):
            type_id, value_id = self._table.type_id[row], self._table.value_id[row]
            if type_id >= 0 and value_id >= 0 and values[type_id] == "int":
                found += parse_numbers(values[value_id]) or ()
        return found

    def argument(self, node: int, name: str) -> str | None:
        """The value of an argument that is no tensor, as text; None when the call has none such."""
        values = self._texts.values
        for row in range(self._start[node], self._start[node + 1]):
            value_id = int(self._table.value_id[row])
            if value_id >= 0 and values[int(self._table.name_id[row])] == name:
                return values[value_id]
        return None

    def group(self, node: int) -> list[int] | None:
        """The ranks of a collective in order, None when it names no group: then it is all."""
        values = self._texts.values
        for row in range(self._start[node], self._start[node + 1]):
            type_id, value_id = self._table.type_id[row], self._table.value_id[row]
            if type_id >= 0 and value_id >= 0 and values[type_id].endswith("ProcessGroup"):
                return sorted(parse_numbers(values[value_id]) or ())
        return None

    def names_differ(self, node: int) -> bool:
        """Whether ranks give a collective other texts, such as the names of their groups."""
        types, values = self._differing.get(node, ()), self._texts.values
        is_text = any(one >= 0 and values[one] == "str" for one in types)
        return is_text and self._tree.parsed[node].stem.startswith("Distributed.")

    def factors_differ(self, node: int) -> bool:
        """Whether all arguments that differ between the ranks are floating-point numbers."""
        types, values = self._differing.get(node, ()), self._texts.values
        return bool(types) and all(one >= 0 and values[one] == "float" for one in types)

    def depends_on_rank(self, node: int) -> bool:
        """Whether an argument that is no tensor differs between the ranks.

        Groups do not count: ranks that talk to others, such as those with other parts of a
        sequence, do so each in a group of its own.
        """
        types, values = self._differing.get(node, ()), self._texts.values
        groups = ("ProcessGroup", "str") if self.names_differ(node) else ("ProcessGroup",)
        return any(one < 0 or not values[one].endswith(groups) for one in types)


def _differing_types(tables: Sequence[ParameterTable]) -> dict[int, list[int]]:
    """By node the types of the arguments that differ between the ranks."""
    first = tables[0]
    differ = np.zeros(len(first), dtype=bool)
    for other in tables[1:]:
        differ |= first.value_id != other.value_id
    found: dict[int, list[int]] = {}
    for node, kind in zip(first.node[differ].tolist(), first.type_id[differ].tolist(), strict=True):
        found.setdefault(node, []).append(kind)
    return found


def _fingerprints(tables: Sequence[ParameterTable]) -> list[bytes]:
    parts = [tables[0].dtype_id.astype(np.float64), tables[0].numel]
    parts += [statistic for table in tables for statistic in table.statistics]
    rows = np.ascontiguousarray(np.array(parts).T)
    return [row.tobytes() for row in rows]


def _agreement(tables: Sequence[ParameterTable]) -> NDArray[np.bool_]:
    first = tables[0].statistics
    agree = np.ones(first.shape[1], dtype=bool)
    for table in tables[1:]:
        other = table.statistics
        agree &= ((first == other) | (np.isnan(first) & np.isnan(other))).all(axis=0)
    return agree
