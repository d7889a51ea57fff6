"""What each tensor of a tensor-parallel rank is: a replica, a shard, or a partial sum.

The answer comes from the module's class and from the flow of data, never from whether the
numbers of the ranks happen to differ. A tensor is recognised from producer to consumer by its
statistics on all ranks. What a reduction over the group takes in is a partial result, and its
output is that result made whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import UNINITIALISED, Direction, Kind, Name
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.tree import Tree
from msprobe_builder.merge.dimensions import Cut, alike, output_cut, reshaped
from msprobe_builder.texts import Texts

Int = NDArray[np.int64]


class Share(IntEnum):
    """How the tensors of the ranks make up one tensor."""

    REPLICA = 0  # all ranks hold the same
    SHARD = 1  # each holds a part along one dimension
    PARTIAL = 2  # the whole is the reduction of all
    UNKNOWN = 3  # depends on the rank in another way


@dataclass(frozen=True)
class State:
    """The share of one tensor; the ``cut`` of a shard is None when it is not known.

    ``reduced`` is the row that holds a partial tensor made whole, -1 when there is none.
    """

    share: Share
    cut: Cut | None = None
    reduced: int = -1


_LAST = Cut(-1)
_REMEMBERED = 64  # shards looked back at for one of the same shape

REPLICA = State(Share.REPLICA)
UNKNOWN = State(Share.UNKNOWN)

_REDUCTIONS = {
    "all_reduce": (0, 0),  # position of what goes in, of what comes out
    "reduce_scatter_tensor": (1, 0),
    "_reduce_scatter_base": (1, 0),
}
_GATHERS = ("all_gather_into_tensor", "_all_gather_base", "all_gather")
_SHRINKING = frozenset(
    "amax amin any all argmax argmin logsumexp max mean min norm prod std sum var".split()
)
_PRODUCTS = frozenset({"matmul", "mm", "addmm", "linear", "__matmul__", "__rmatmul__"})


def module_class(name: Name) -> str:
    """The class of a module call or of a module's gradients."""
    return name.stem.removesuffix(".parameters_grad").rpartition(".")[2]


def parameter_state(class_name: str, parameter: str) -> State:
    """The share of a module's own parameter or of its gradient."""
    is_bias = parameter.rpartition(".")[2].startswith("bias")
    if "ColumnParallel" in class_name or class_name == "QKVParallelLinear":
        # A fused layer norm's weight is no part of the linear layer.
        return REPLICA if "layer_norm" in parameter else State(Share.SHARD, Cut(0))
    if "RowParallel" in class_name:
        return REPLICA if is_bias else State(Share.SHARD, Cut(1))
    if "VocabParallelEmbedding" in class_name:
        return State(Share.SHARD, Cut(0))
    return REPLICA


def boundary_state(class_name: str, direction: Direction, section: Section) -> State | None:
    """The share of what enters and leaves a parallel layer, None for other classes.

    In backward the inputs are gradients of outputs and the outputs gradients of inputs.
    """
    backward = direction is Direction.BACKWARD
    entering = (section is Section.INPUT) != backward
    if "ColumnParallel" in class_name:
        return REPLICA if entering else State(Share.SHARD, _LAST)
    if "RowParallel" in class_name:
        return State(Share.SHARD, _LAST) if entering else REPLICA
    if "VocabParallelEmbedding" in class_name:
        return REPLICA
    return None


def classify(
    tree: Tree, tables: Sequence[ParameterTable], texts: Texts, group: Sequence[int]
) -> list[State]:
    """The state of every row; the tables of all ranks have equal rows in equal order."""
    return _Flow(tree, tables, texts, group).states()


class _Flow:
    def __init__(
        self,
        tree: Tree,
        tables: Sequence[ParameterTable],
        texts: Texts,
        group: Sequence[int],
    ) -> None:
        self._tree, self._tables, self._texts = tree, tables, texts
        self._table = tables[0]
        self._group = str(sorted(group))
        self._start = np.searchsorted(self._table.node, np.arange(len(tree) + 1)).tolist()
        self._keys = _fingerprints(tables)
        self._agree = _agreement(tables)
        self._state = [UNKNOWN] * len(self._table)
        self._known: dict[bytes, tuple[State, list[int]]] = {}
        self._recent: deque[tuple[Cut, list[int]]] = deque(maxlen=_REMEMBERED)
        self._number = {name: node for node, name in enumerate(tree.parsed)}
        self._reduced = self._find_reductions()

    def states(self) -> list[State]:
        open_modules: list[int] = []
        for node in range(len(self._tree)):
            while open_modules and self._tree.subtree_end[open_modules[-1]] < node:
                self._leave(open_modules.pop())
            if self._tree.parsed[node].kind is Kind.API:
                self._call(node)
            else:
                self._enter(node)
                open_modules.append(node)
        while open_modules:
            self._leave(open_modules.pop())
        return self._state

    def _rows(self, node: int, *sections: Section) -> list[int]:
        section = self._table.section
        return [
            row
            for row in range(self._start[node], self._start[node + 1])
            if section[row] in sections and self._table.is_tensor[row]
        ]

    def _find_reductions(self) -> dict[bytes, int]:
        """Fingerprint of what goes into a reduction over the group, and the row of its result."""
        found: dict[bytes, int] = {}
        for node, name in enumerate(self._tree.parsed):
            places = _REDUCTIONS.get(_operator(name))
            if places is None or not self._is_over_group(node):
                continue
            inputs, outputs = self._rows(node, Section.INPUT), self._rows(node, Section.OUTPUT)
            if len(inputs) > places[0] and len(outputs) > places[1]:
                result = outputs[places[1]]
                if self._texts_equal_shape(inputs[places[0]], result):
                    found.setdefault(self._keys[inputs[places[0]]], result)
        return found

    def _texts_equal_shape(self, one: int, other: int) -> bool:
        return int(self._table.shape_id[one]) == int(self._table.shape_id[other])

    def _is_over_group(self, node: int) -> bool:
        """Whether a collective runs over the tensor-parallel group; no group means all ranks."""
        values = self._texts.values
        for row in range(self._start[node], self._start[node + 1]):
            type_id, value_id = self._table.type_id[row], self._table.value_id[row]
            if type_id >= 0 and value_id >= 0 and values[type_id].endswith("ProcessGroup"):
                return bool(values[value_id] == self._group)
        return True

    def _look_up(self, row: int) -> State | None:
        key = self._keys[row]
        result = self._reduced.get(key)
        if result is not None:
            return State(Share.PARTIAL, None, result)
        found = self._known.get(key)
        if found is None:
            return None
        state, shape = found
        own = self._shape(row)
        if state.cut is None or shape == own:
            return state
        return State(state.share, reshaped(state.cut, shape, own))  # a view of it

    def _set(self, row: int, state: State) -> None:
        shape = self._shape(row)
        if state.share is Share.SHARD:
            cut = self._forward_cut(row) or state.cut or alike(shape, self._recent)
            state = State(Share.SHARD, self._from_front(cut, shape))
            if state.cut is not None:
                self._recent.append((state.cut, shape))
        self._state[row] = state
        if state.share is not Share.PARTIAL:
            self._known[self._keys[row]] = state, shape

    def _forward_cut(self, row: int) -> Cut | None:
        """A gradient is cut like the tensor of its forward call that has its shape."""
        name = self._tree.parsed[self._table.node[row]]
        if name.direction is not Direction.BACKWARD:
            return None
        twin = self._number.get(name._replace(direction=Direction.FORWARD))
        if twin is None:
            return None
        for own in range(self._start[twin], self._start[twin + 1]):
            if self._table.shape_id[own] == self._table.shape_id[row]:
                cut = self._state[own].cut
                if cut is not None:
                    return cut
        return None

    @staticmethod
    def _from_front(cut: Cut | None, shape: list[int]) -> Cut | None:
        if cut is None or not -len(shape) <= cut.dimension < len(shape):
            return None
        return cut._replace(dimension=cut.dimension % len(shape))

    def _by_numbers(self, row: int) -> State:
        """Last resort for what no recorded call made: views and indexing leave no record.

        Equal on all ranks it is shared data; otherwise it is a shard if it looks like a recent one.
        """
        if self._agree[row]:
            return REPLICA
        cut = self._forward_cut(row) or alike(self._shape(row), self._recent)
        return UNKNOWN if cut is None or self._is_whole_number(row) else State(Share.SHARD, cut)

    def _by_surroundings(self, node: int, row: int) -> State:
        """What enters or leaves a module unrecorded is a shard if the module works on shards."""
        state = self._by_numbers(row)
        if state.share is not Share.UNKNOWN or self._is_whole_number(row):
            return state
        around = (node, int(self._tree.parent[node]))
        inputs = [own for place in around for own in self._rows(place, Section.INPUT)]
        if any(self._state[own].share is Share.SHARD for own in inputs):
            return State(Share.SHARD)
        return state

    def _is_whole_number(self, row: int) -> bool:
        dtype_id = self._table.dtype_id[row]
        name = self._texts.values[dtype_id].lower() if dtype_id >= 0 else ""
        return "int" in name or "bool" in name

    def _enter(self, node: int) -> None:
        name = self._tree.parsed[node]
        class_name = module_class(name)
        for row in self._rows(node, Section.PARAMETERS, Section.PARAMETERS_GRAD):
            parameter = self._texts.values[self._table.name_id[row]]
            self._set(row, parameter_state(class_name, parameter))
        self._pass_boundary(node, Section.INPUT)

    def _leave(self, node: int) -> None:
        self._pass_boundary(node, Section.OUTPUT)

    def _pass_boundary(self, node: int, section: Section) -> None:
        """What the flow of data says goes before what the class says: layers can gather."""
        name = self._tree.parsed[node]
        for row in self._rows(node, section):
            rule = boundary_state(module_class(name), name.direction, section)
            seen = self._look_up(row)
            if rule is None:
                state = seen or self._by_surroundings(node, row)
            elif seen is None or seen.share in (rule.share, Share.PARTIAL, Share.UNKNOWN):
                state = rule
            else:
                state = seen
            self._set(row, state)

    def _shape(self, row: int) -> list[int]:
        shape_id = self._table.shape_id[row]
        text = self._texts.values[shape_id] if shape_id >= 0 else "[]"
        parts = text.strip("[]").split(",")
        return [int(part) for part in parts] if parts != [""] else []

    def _call(self, node: int) -> None:
        name = self._tree.parsed[node]
        operator = _operator(name)
        inputs = self._rows(node, Section.INPUT, Section.PARAMETERS, Section.PARAMETERS_GRAD)
        outputs = self._rows(node, Section.OUTPUT)
        for row in inputs:
            self._set(row, self._look_up(row) or self._by_numbers(row))
        if name.stem.startswith("Distributed.") and self._is_over_group(node):
            self._collective(operator, outputs)
            return
        shares = {self._state[row].share for row in inputs}
        for row in outputs:
            self._set(row, self._output(node, operator, inputs, row, shares))

    def _collective(self, operator: str, outputs: list[int]) -> None:
        if operator in _REDUCTIONS:
            place = _REDUCTIONS[operator][1]
            for position, row in enumerate(outputs):
                whole = operator == "all_reduce" or position != place
                self._set(row, REPLICA if whole else State(Share.SHARD, Cut(0)))
            return
        for row in outputs:
            gathered = operator in _GATHERS and self._agree[row]
            self._set(row, REPLICA if gathered else self._by_numbers(row))

    def _output(
        self, node: int, operator: str, inputs: list[int], row: int, shares: set[Share]
    ) -> State:
        result = self._reduced.get(self._keys[row])
        if result is not None:
            return State(Share.PARTIAL, None, result)
        if operator in UNINITIALISED:
            return REPLICA
        if Share.UNKNOWN in shares or self._depends_on_rank(node):
            return UNKNOWN
        if Share.PARTIAL in shares:
            return REPLICA if self._agree[row] and Share.SHARD not in shares else UNKNOWN
        if Share.SHARD not in shares:
            return REPLICA if inputs else self._by_numbers(row)
        shards = [own for own in inputs if self._state[own].share is Share.SHARD]
        shapes = [self._shape(own) for own in shards]
        if operator in _PRODUCTS and len(shards) > 1 and any(len(one) == 2 for one in shapes):
            return State(Share.PARTIAL)
        shape = self._shape(row)
        if operator in _SHRINKING and len(shape) < max(map(len, shapes)):
            return UNKNOWN
        cut = output_cut(
            operator,
            self._tree.parsed[node].direction,
            [(self._state[own].cut, one) for own, one in zip(shards, shapes, strict=True)],
            shape,
            self._numbers(node),
        )
        return State(Share.SHARD, cut)

    def _numbers(self, node: int) -> list[int]:
        """Whole-number arguments of a call in order."""
        values = self._texts.values
        found = []
        for row in range(self._start[node], self._start[node + 1]):
            type_id, value_id = self._table.type_id[row], self._table.value_id[row]
            if type_id >= 0 and value_id >= 0 and values[type_id] == "int":
                found.append(int(values[value_id]))
        return found

    def _depends_on_rank(self, node: int) -> bool:
        """Whether an argument that is no tensor differs between the ranks."""
        rows = slice(self._start[node], self._start[node + 1])
        first = self._table.value_id[rows]
        return any(not np.array_equal(first, other.value_id[rows]) for other in self._tables[1:])


def _operator(name: Name) -> str:
    return name.stem.rpartition(".")[2] if name.kind is Kind.API else ""


def _fingerprints(tables: Sequence[ParameterTable]) -> list[bytes]:
    """What a tensor looks like on all ranks: dtype, number of elements and statistics."""
    parts = [tables[0].dtype_id.astype(np.float64), tables[0].numel]
    parts += [statistic for table in tables for statistic in table.statistics]
    rows = np.ascontiguousarray(np.array(parts).T)
    return [row.tobytes() for row in rows]


def _agreement(tables: Sequence[ParameterTable]) -> NDArray[np.bool_]:
    """Rows whose statistics are equal on all ranks."""
    first = tables[0].statistics
    agree = np.ones(first.shape[1], dtype=bool)
    for table in tables[1:]:
        other = table.statistics
        agree &= ((first == other) | (np.isnan(first) & np.isnan(other))).all(axis=0)
    return agree
