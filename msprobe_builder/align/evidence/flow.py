"""Which call puts out what another takes in, as the statistics of one side tell.

A tensor that is handed on is recorded with the very same statistics by the call that puts it out
and by those that take it in; views and reshaping change its shape alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.match.hashing import mixed

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


_GIVEN, _PUT_OUT = (int(Section.INPUT), int(Section.PARAMETERS)), int(Section.OUTPUT)


@dataclass(frozen=True)
class Flow:
    """Rows of a parameter table of the calls going forward, by node and in order.

    ``key`` is equal where all that is recorded of two tensors but their shapes is, 0 where that
    is not enough to tell them from others. ``producer`` is the row that put out what an input
    row takes in, -1 where nobody did; ``source`` the same beyond calls that hand it on.
    ``takers`` are the rows in the order of their sources, ``sources`` these.
    """

    table: ParameterTable
    is_leaf: Bool  # of each node: calls, and modules that make none
    key: Int
    producer: Int
    source: Int
    takers: Int
    sources: Int
    first_row: Int  # of each node, and the end
    is_guessed: bool = False  # by shapes alone

    def taken(self, row: int) -> list[int]:
        """The rows that take in what a row puts out, ascending."""
        begin, end = np.searchsorted(self.sources, [row, row + 1])
        return [int(one) for one in self.takers[begin:end]]

    def rows(self, node: int) -> range:
        """The rows of a node."""
        return range(int(self.first_row[node]), int(self.first_row[node + 1]))


def flow_of(side: Traits, table: ParameterTable) -> Flow:
    """Follow the tensors of the calls that go forward for the first time."""
    tree = side.outline.tree
    key = _keys(table)
    leaf = is_leaf(side)
    taking = np.flatnonzero(leaf[table.node] & (table.section == Section.INPUT) & (key != 0))
    giving = np.flatnonzero(leaf[table.node] & (table.section == Section.OUTPUT) & (key != 0))
    producer = np.full(len(table), -1, dtype=np.int64)
    if len(taking) and len(giving):
        steps = mixed(key, tree.micro_step[table.node])
        numbers = np.unique(steps[giving])
        place = np.searchsorted(numbers, steps[taking])
        place = np.minimum(place, len(numbers) - 1)
        known = numbers[place] == steps[taking]
        taking, place = taking[known], place[known]
        size = len(tree)
        given = np.searchsorted(numbers, steps[giving]) * size + table.node[giving]
        order = np.argsort(given, kind="stable")
        # The last call before that put out such a tensor.
        before = np.searchsorted(given[order], place * size + table.node[taking]) - 1
        row = giving[order][np.maximum(before, 0)]
        found = (before >= 0) & (steps[row] == steps[taking])
        producer[taking[found]] = row[found]
    _recorded(table, leaf, producer)
    if table.origins is not None:
        key = _with_recorded(side, table, key, producer)
    source = _sources(table, key, producer)
    takers = np.argsort(source, kind="stable")
    return Flow(
        table,
        leaf,
        key,
        producer,
        source,
        takers,
        source[takers],
        np.searchsorted(table.node, np.arange(len(tree) + 1)),
    )


def _recorded(table: ParameterTable, leaf: Bool, producer: Int) -> None:
    """Put what the collector recorded of who made a tensor in place of what is inferred."""
    if table.origins is None:
        return
    maker = table.origins.maker
    rows = np.flatnonzero(leaf[table.node] & (table.section == Section.INPUT) & (maker >= 0))
    made = maker[rows]
    is_call = leaf[table.node[made]] & (table.section[made] == Section.OUTPUT)
    is_call &= table.node[made] < table.node[rows]
    producer[rows[is_call]] = made[is_call]


def _with_recorded(side: Traits, table: ParameterTable, key: Int, producer: Int) -> Int:
    """The keys, of tensors without statistics the row that made their elements."""
    rows = np.flatnonzero(table.is_tensor & (key == 0) & (table.missing != 0))
    origin = np.where(producer >= 0, producer, np.arange(len(table)))
    taking = np.flatnonzero(side.keeps[table.node] & table.is_tensor)
    given = taking[table.section[taking] == _GIVEN[0]]
    made = taking[table.section[taking] == _PUT_OUT]
    origin[made] = origin[given]
    while not np.array_equal(origin, further := origin[origin]):
        origin = further
    result = key.copy()
    result[rows] = mixed(origin[rows], np.full(len(rows), -1)).astype(np.int64) >> 1
    return result


def guessed(side: Traits, flow: Flow, products: Int) -> Flow:
    """The flow as shapes alone let guess; ``products`` are the operators that sum up products."""
    producer = _by_shapes(side, flow.table, flow.is_leaf, products)
    return replace(flow, producer=producer, source=producer, is_guessed=True)


def _by_shapes(side: Traits, table: ParameterTable, leaf: Bool, products: Int) -> Int:
    """Guess who put out each input where nothing is known of tensors but their shapes.

    A call takes in what was put out last in that shape. A projection does not take in what another
    one like it makes: the query is none of the key.
    """
    producer = np.full(len(table), -1, dtype=np.int64)
    wanted = table.is_tensor & (table.shape_id >= 0) & (table.numel > 1) & leaf[table.node]
    wanted &= (table.section == Section.INPUT) | (table.section == Section.OUTPUT)
    rows = np.flatnonzero(wanted)
    node = table.node[rows]
    nodes = np.arange(len(side))
    weighs = (side.parameters.count > 0) & ~side.parameters.are_vectors(nodes)
    weighs |= np.isin(side.operator, products)
    like = mixed(side.operator, side.inputs.shapes, side.parameters.shapes)
    like = np.where(weighs, like.view(np.int64), -1 - nodes)[node]
    kinds = mixed(table.shape_id[rows], side.outline.tree.micro_step[node])
    last: dict[int, list[tuple[int, int]]] = {}  # by shape the last rows of two kinds of calls
    columns = (rows, like, kinds, table.section[rows] == Section.OUTPUT)
    for row, own, kind, is_output in zip(*(one.tolist() for one in columns), strict=True):
        before = last.get(kind, [])
        others = [one for one in before if one[1] != own]
        if is_output:
            last[kind] = [(row, own), *others[:1]]
        elif others:
            producer[row] = others[0][0]
    return producer


def _sources(table: ParameterTable, key: Int, producer: Int) -> Int:
    """Who put out each input first: views, casts to the same type and their like hand it on."""
    given = np.flatnonzero(producer >= 0)
    out = np.unique(producer[given])
    out = out[key[out] != 0]
    if not len(out):
        return producer
    own = mixed(table.node[given], key[given])
    order = np.argsort(own, kind="stable")
    wanted = mixed(table.node[out], key[out])
    place = np.minimum(np.searchsorted(own[order], wanted), len(given) - 1)
    handed = own[order][place] == wanted
    before = np.full(len(table), -1, dtype=np.int64)  # of what a call hands on
    before[out[handed]] = producer[given[order[place[handed]]]]
    result = producer.copy()
    while len(given):  # who made a tensor stands before who takes it in
        further = before[result[given]]
        given, further = given[further >= 0], further[further >= 0]
        result[given] = further
    return result


def is_leaf(side: Traits) -> Bool:
    """Calls that go forward for the first time, and modules that make none."""
    end = side.outline.tree.subtree_end
    return np.asarray(side.forward & (end == np.arange(len(end))))


def _keys(table: ParameterTable) -> Int:
    """The same for equal statistics; 0 for constants and for what has none.

    Collectors give no norm of complex tensors.
    """
    high, low, mean, norm = table.statistics
    telling = table.is_tensor & ~np.isnan(mean) & ~np.isnan(high) & ~np.isnan(low)
    telling &= ((high != low) | (table.numel == 1)) & (norm != 0)
    bits = [np.nan_to_num(one, posinf=np.inf, neginf=-np.inf) for one in table.statistics]
    bits = [np.ascontiguousarray(one).view(np.int64) for one in bits]
    keys = mixed(np.nan_to_num(table.numel).view(np.int64), *bits).astype(np.int64) >> 1
    return np.where(telling, keys, 0)


def alike(
    debug: ParameterTable, reference: ParameterTable, a: Int, b: Int, tolerance: float
) -> Bool:
    """Whether the statistics of two tensors agree, for each pair of rows ``a`` × ``b``.

    The norm as a fraction of itself, the others as one of the largest element.
    """
    result = debug.numel[a][:, None] == reference.numel[b]
    x, y = debug.statistics[:, a][:, :, None], reference.statistics[:, b][:, None, :]
    result &= np.isfinite(x).all(axis=0) & np.isfinite(y).all(axis=0)
    with np.errstate(invalid="ignore", over="ignore"):
        norm = np.maximum(np.abs(x[3]), np.abs(y[3]))
        result &= np.abs(x[3] - y[3]) <= tolerance * norm
        scale = np.maximum(np.abs(x[:2]).max(axis=0), np.abs(y[:2]).max(axis=0))
        for line in range(3):
            result &= np.abs(x[line] - y[line]) <= tolerance * scale
    return np.asarray(result)


def inputs_of(flow: Flow, node: int) -> list[int]:
    """Rows of the tensors that a node takes in, its parameters included."""
    return [
        row
        for row in flow.rows(node)
        if flow.table.is_tensor[row] and flow.table.section[row] in _GIVEN
    ]


def outputs_of(flow: Flow, node: int) -> list[int]:
    """Rows of the tensors that a node puts out."""
    return [
        row
        for row in flow.rows(node)
        if flow.table.is_tensor[row] and flow.table.section[row] == _PUT_OUT
    ]
