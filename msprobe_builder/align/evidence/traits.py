"""What is known of each node beside its name, as columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.operators import forms, numbers_of
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction, Kind, parse_gradients
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.memory import meaningless
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.part import Part
from msprobe_builder.graph.producers import producers
from msprobe_builder.graph.side import Side
from msprobe_builder.graph.tree import Tree
from msprobe_builder.match.hashing import mixed
from msprobe_builder.match.outline import Outline
from msprobe_builder.operators.questions import is_uninitialised, one_of
from msprobe_builder.operators.table import paired_name

Int = NDArray[np.int64]
Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

_MAX, _MIN, _MEAN, _NORM = range(4)
_BINS = 64  # of the histogram of operators below a node


# With these numbers a call hands on what it is given.
_IDLE = (
    (("mul", "div"), ("1", "1.0")),
    (("add", "sub", "dropout"), ("0", "0.0")),
)


@dataclass(frozen=True)
class Tensors:
    """The tensors of one section of each node, summed up regardless of their order.

    ``values`` has the shape (3, nodes): the L2 norm of all of them together, the largest and the
    smallest element; NaN where not recorded. ``shapes`` is equal where the shapes are, ``ranks``
    where the numbers of dimensions are. ``checksum`` is 0 where not recorded.
    """

    count: Int
    shapes: Int
    ranks: Int
    numel: Float
    values: Float
    checksum: Int

    def are_vectors(self, nodes: Int) -> Bool:
        """Which of some nodes have tensors of one dimension alone, as the weights of norms are."""
        alike = self.count[nodes] * _rank_keys(np.array([1], dtype=np.int64))
        return np.asarray((self.count[nodes] > 0) & (self.ranks[nodes] == alike))


@dataclass(frozen=True)
class Traits:
    """One side as alignment sees it.

    ``operator`` is what a call does (an id shared by both sides), -1 for modules. ``forward``
    marks the calls that were made going forward for the first time: calls, not recomputations.
    ``results`` are the first tensors that nodes put out: what else a module returns, such as the
    weights of an attention, another author does not. ``arguments`` is equal where all inputs that
    are no tensors are.
    ``below`` is the histogram of operators in the subtree with shape (nodes, bins),
    ``parameters_below`` the sum of squares and the number of elements of all parameters there,
    ``content`` is equal where the number of elements and the operators are. ``keeps`` marks calls
    whose operator and arguments tell that they put out the elements of the one tensor that they are
    given, in another form or not.
    """

    outline: Outline
    operator: Int
    direction: Int
    forward: Bool
    inputs: Tensors
    outputs: Tensors
    results: Tensors
    parameters: Tensors
    arguments: Int
    below: NDArray[np.int32]
    parameters_below: Float
    content: Int
    keeps: Bool

    def __len__(self) -> int:
        return len(self.operator)


def _operators(tree: Tree, calls: Int, ids: dict[str, int]) -> Int:
    """The operator of each of these calls, -1 for other nodes; ``ids`` are given as they come."""
    result = np.full(len(tree), -1, dtype=np.int64)
    stem = tree.calls.stem[calls]
    stems, first, place = np.unique(stem, return_index=True, return_inverse=True)
    of_stem = np.empty(len(stems), dtype=np.int64)
    for one in np.argsort(first).tolist():
        of_stem[one] = ids.setdefault(paired_name(tree.calls.stems[stems[one]]), len(ids))
    result[calls] = of_stem[place]
    return result


def traits_of(side: Side, outline: Outline, operators: dict[str, int], texts: Texts) -> Traits:
    """Gather the traits of one side; ``operators`` gives ids and grows."""
    tree, table = side.tree, side.table
    dimensions = _dimensions(table, texts)
    operator = _operators(tree, np.flatnonzero(outline.kind == Kind.API), operators)
    direction = tree.calls.direction.astype(np.int64)
    blank = _blank(side, texts)
    parameters = _tensors(table, Section.PARAMETERS, len(tree), dimensions, blank)
    calls = np.flatnonzero(operator >= 0)
    below = np.zeros((len(tree) + 1, _BINS), dtype=np.int32)
    below[calls + 1, operator[calls] % _BINS] = 1
    below = _in_subtrees(below, tree.subtree_end)
    parameters_below = _parameters_below(table, tree.subtree_end)
    inputs = _tensors(table, Section.INPUT, len(tree), dimensions, blank)
    outputs = _tensors(table, Section.OUTPUT, len(tree), dimensions, blank)
    weights = np.random.default_rng(0).integers(1 << 40, size=_BINS)
    return Traits(
        outline=outline,
        operator=operator,
        direction=direction,
        forward=_goes_forward(outline, direction),
        inputs=inputs,
        outputs=outputs,
        results=_tensors(table, Section.OUTPUT, len(tree), dimensions, blank, first_alone=True),
        parameters=parameters,
        arguments=_arguments(table, len(tree)),
        below=below,
        parameters_below=parameters_below,
        content=mixed(parameters_below[1].view(np.int64), below @ weights).astype(np.int64) >> 1,
        keeps=_keeps(table, texts, operator, operators, inputs, outputs),
    )


def _blank(side: Side, texts: Texts) -> Bool:
    """Rows whose numbers are those of memory: no two runs of a program find the same there."""
    tree, table = side.tree, side.table
    if not tree.calls.are(is_uninitialised).any():
        return np.zeros(len(table), dtype=bool)  # spares looking for where tensors came from
    part = Part(tree, table)
    return meaningless(part, producers(tree, tree.calls, table), texts)


def _keeps(
    table: ParameterTable,
    texts: Texts,
    operator: Int,
    operators: dict[str, int],
    inputs: Tensors,
    outputs: Tensors,
) -> Bool:
    """Views and casts, products with one, sums with nothing and dropout that drops nothing."""
    types, numbers = np.full((2, len(operator)), -1), np.full(len(operator), -1)
    for line, section in enumerate((Section.INPUT, Section.OUTPUT)):
        rows = np.flatnonzero((table.section == section) & table.is_tensor)
        types[line, table.node[rows]] = table.dtype_id[rows]
    rows = np.flatnonzero((table.section == Section.INPUT) & ~table.is_tensor)[::-1]
    numbers[table.node[rows]] = table.value_id[rows]  # of several the first
    alone = (inputs.count == 1) & (outputs.count == 1) & (inputs.numel == outputs.numel)
    alone &= types[0] == types[1]
    result = np.isin(operator, numbers_of(operators, forms))
    for names, values in _IDLE:
        is_idle = np.isin(numbers, [texts.find(one) for one in values])
        result |= is_idle & np.isin(operator, numbers_of(operators, one_of(*names)))
    return np.asarray(result & alone)


def has_values(side: Traits) -> bool:
    """Whether anything is recorded of what tensors hold."""
    return not bool(np.isnan(side.inputs.values[0]).all())


def without_values(side: Traits) -> Traits:
    """The side as if nothing was recorded of its tensors but their shapes."""
    inputs, outputs, parameters = (
        replace(one, values=np.full_like(one.values, np.nan), checksum=np.zeros_like(one.checksum))
        for one in (side.inputs, side.outputs, side.parameters)
    )
    return replace(side, inputs=inputs, outputs=outputs, parameters=parameters)


def _goes_forward(outline: Outline, direction: Int) -> Bool:
    """First calls, and modules without a direction such as the optimizer.

    What goes forward inside a backward call repeats something or helps, marked or not.
    """
    tree = outline.tree
    result = (direction == Direction.FORWARD) & ~tree.is_recompute
    backward = np.flatnonzero((direction == Direction.BACKWARD) & (outline.kind == Kind.MODULE))
    change = np.zeros(len(tree) + 1, dtype=np.int64)
    np.add.at(change, backward, 1)
    np.add.at(change, tree.subtree_end[backward] + 1, -1)
    result &= np.cumsum(change)[:-1] == 0
    for node in np.flatnonzero((direction == Direction.NONE) & (outline.kind == Kind.MODULE)):
        result[node] = node > 0 and parse_gradients(tree.names[int(node)]) is None
    return np.asarray(result)


def _in_subtrees(counts: NDArray[np.int32], end: Int) -> NDArray[np.int32]:
    sums = np.cumsum(counts, axis=0, dtype=np.int32)
    return np.asarray(sums[end + 1] - sums[:-1])


def _parameters_below(table: ParameterTable, end: Int) -> Float:
    """Sum of squares and number of elements of the parameters in each subtree, (2, nodes)."""
    rows = np.flatnonzero((table.section == Section.PARAMETERS) & table.is_tensor)
    squares = np.square(np.nan_to_num(table.statistics[_NORM, rows], posinf=0.0, neginf=0.0))
    result = np.zeros((2, len(end)))
    for line, column in enumerate((squares, np.nan_to_num(table.numel[rows]))):
        sums = np.bincount(table.node[rows], weights=column, minlength=len(end))
        total = np.r_[0.0, np.cumsum(sums)]
        result[line] = total[end + 1] - total[:-1]
    return result


def _tensors(
    table: ParameterTable,
    section: Section,
    nodes: int,
    dimensions: Int,
    blank: Bool,
    *,
    first_alone: bool = False,
) -> Tensors:
    rows = np.flatnonzero((table.section == section) & table.is_tensor)
    if first_alone:
        rows = rows[np.diff(table.node[rows], prepend=-1) != 0]
    node = table.node[rows]
    shapes = mixed(table.shape_id[rows]).astype(np.int64) >> 8
    numel = np.nan_to_num(table.numel[rows])
    count = np.bincount(node, minlength=nodes)
    told = rows[~blank[rows]]
    statistics, owner = table.statistics[:, told], table.node[told]
    values = np.full((3, nodes), np.nan)
    some = np.bincount(owner, minlength=nodes) > 0
    with np.errstate(invalid="ignore", over="ignore"):
        squares = np.bincount(owner, weights=np.square(statistics[_NORM]), minlength=nodes)
        values[0, some] = np.sqrt(squares[some])
    for line, of, best in ((1, _MAX, np.fmax), (2, _MIN, np.fmin)):
        best.at(values[line], owner, statistics[of])
    checksum = np.zeros(nodes, dtype=np.int64)
    if table.md5:
        wanted = dict(zip(told.tolist(), owner.tolist(), strict=True))
        for row, text in table.md5.items():
            if row in wanted:
                checksum[wanted[row]] += crc32(text.encode())
    return Tensors(
        count=count,
        shapes=summed(node, shapes, nodes),
        ranks=summed(node, _rank_keys(dimensions[rows]), nodes),
        numel=np.bincount(node, weights=numel, minlength=nodes).astype(np.float64),
        values=values,
        checksum=checksum,
    )


def _rank_keys(dimensions: Int) -> Int:
    """Numbers whose sums tell of how many dimensions some tensors are."""
    return np.asarray(mixed(dimensions).astype(np.int64) >> 8)


def _dimensions(table: ParameterTable, texts: Texts) -> Int:
    """Number of dimensions of each row's tensor, -1 where the shape is unknown."""
    shapes, place = np.unique(table.shape_id, return_inverse=True)
    counts = []
    for shape in shapes.tolist():
        text = texts.values[shape] if shape >= 0 else ""
        counts.append(text.count(",") + (text != "[]") if text.startswith("[") else -1)
    return np.array(counts, dtype=np.int64)[place.reshape(-1)]


def _arguments(table: ParameterTable, nodes: int) -> Int:
    rows = np.flatnonzero((table.section == Section.INPUT) & ~table.is_tensor)
    keys = mixed(table.value_id[rows], table.type_id[rows]).astype(np.int64) >> 8
    return summed(table.node[rows], keys, nodes)


def summed(node: Int, keys: Int, nodes: int) -> Int:
    """The sums of keys by node; they wrap around."""
    result = np.zeros(nodes, dtype=np.int64)
    np.add.at(result, node, keys)
    return result
