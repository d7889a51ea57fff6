"""Groups where statistics do not tell: by operators, places and shapes.

One call that the table ``fused.tsv`` knows stands against the calls between the same neighbours
that hold what it cannot do without; one linear against those whose weights add up to its own.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.flow import Flow, inputs_of, outputs_of
from msprobe_builder.align.evidence.operators import forms
from msprobe_builder.align.evidence.tolerances import EQUAL
from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.align.groups.fused import fusions, operators_of
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.match.matching import Group
from msprobe_builder.operators.operator import Kind, Operator
from msprobe_builder.operators.table import row_of

Int = NDArray[np.int64]

_BY_SHAPES = 0.75
_BY_WEIGHTS = 0.95


def find_by_shapes(
    side: Traits,
    flow: Flow,
    free: list[int],
    partner: Int,
    other: Traits,
    other_flow: Flow,
    other_free: list[int],
    back: Int,
    *,
    weights_tell: bool,
) -> list[Group]:
    """Groups of one region in which this side has the one call and the other one the many.

    Where ``weights_tell`` those of several linears are as large together as those of the one.
    """
    found: list[Group] = []
    taken: set[int] = set()
    names = operators_of(side.outline.tree, free)
    for node, name in zip(free, names, strict=True):
        run = [one for one in _between(side, flow, partner, node, other_free) if one not in taken]
        if partner[node] >= 0 or any(back[one] >= 0 for one in run):
            continue
        group = _as_table_says(flow, other, other_flow, node, name, run)
        if group is None:
            continue
        found.append(group)
        taken |= set(group.bench)
    rest = [one for one in other_free if one not in taken]
    used = {one for group in found for one in group.npu}
    left = [node for node in free if node not in used]
    return found + _linears(flow, left, other_flow, rest, weights_tell)


def exchanged(group: Group) -> Group:
    """The same seen from the other side."""
    rows = tuple((other, row) for row, other in group.rows)
    return Group(group.operation, group.bench, group.npu, rows, group.certainty)


def _between(side: Traits, flow: Flow, partner: Int, node: int, free: list[int]) -> list[int]:
    """Free nodes of the other side between the partners of the calls before and after a node.

    Calls that only show a tensor in another form are too much alike to mark a place.
    """
    before, after = node - 1, node + 1
    while before > 0 and not _marks(side, flow, partner, before):
        before -= 1
    while after < len(partner) and not _marks(side, flow, partner, after):
        after += 1
    low = int(partner[before]) if before > 0 else 0
    high = int(partner[after]) if after < len(partner) else max(free, default=0) + 1
    return free[bisect_right(free, low) : bisect_left(free, high)]


def _marks(side: Traits, flow: Flow, partner: Int, node: int) -> bool:
    if not flow.is_leaf[node] or partner[node] < 0:
        return False
    return not forms(row_of(operators_of(side.outline.tree, [node])[0]))


def _as_table_says(
    flow: Flow, other: Traits, other_flow: Flow, node: int, name: str, run: list[int]
) -> Group | None:
    """A fused call against a run of calls, where the shapes of what goes in and out agree."""
    names = operators_of(other.outline.tree, run)
    kinds = [row_of(one).kind for one in names]
    has = {*names, *(["matmul"] if Kind.PRODUCT in kinds else [])}
    for operation, calls, parts in fusions():
        if name not in calls or not parts <= has:
            continue
        for first, last in _windows(other, run, names, row_of(name), parts):
            out, result = outputs_of(flow, node), outputs_of(other_flow, run[last])
            if not out or not result or not _same_size(flow, other_flow, out[0], result[0]):
                continue
            members = run[first : last + 1]
            by_size = "attention" in row_of(name).traits  # heads stand before tokens, or behind
            rows = _input_rows(flow, other_flow, node, members, by_size=by_size)
            if rows:
                rows.append((out[0], result[0]))
                return Group(operation, (node,), tuple(members), tuple(rows), _BY_SHAPES)
    return None


def _windows(
    other: Traits, run: list[int], names: list[str], one: Operator, parts: frozenset[str]
) -> Iterator[tuple[int, int]]:
    """First and last of those calls of a run that may do together what one does.

    What sums up no products is written without any: products and their biases stand between. Of
    attention it is known what stands between its two products.
    """
    kinds = [row_of(name).kind for name in names]
    products = [place for place, kind in enumerate(kinds) if kind is Kind.PRODUCT]
    if one.kind is Kind.PRODUCT:
        centre = max(names.index(part) for part in parts if row_of(part).kind is not Kind.PRODUCT)
        before = [place for place in products if place < centre]
        behind = [place for place in products if place > centre]
        if "attention" not in one.traits:  # what stands behind a product, and nothing after that
            working = [place for place, name in enumerate(names) if not forms(row_of(name))]
            behind = [centre] if working[-1] == centre and len(products) == 1 else []
        if before and behind:
            yield before[-1], behind[0]
        return
    for begin, end in pairwise([-1, *products, len(run)]):
        first, last = begin + 1, end - 1
        while first < last and (
            forms(row_of(names[first]))
            or (begin >= 0 and _is_bias(other, run[first], names[first]))
        ):
            first += 1
        while last > first and forms(row_of(names[last])):
            last -= 1
        if parts <= set(names[first : last + 1]):
            yield first, last


def _is_bias(other: Traits, node: int, name: str) -> bool:
    """Whether a call adds something smaller than what it puts out."""
    whole = other.outputs.numel[node]
    return row_of(name).kind is Kind.SUM and bool(other.inputs.numel[node] < 2 * whole)


def _same_size(flow: Flow, other: Flow, row: int, place: int) -> bool:
    return bool(flow.table.numel[row] == other.table.numel[place])


def _input_rows(
    flow: Flow, other: Flow, node: int, members: list[int], *, by_size: bool
) -> list[tuple[int, int]]:
    """Inputs of a call and those of equal shape, or size, that the first to want one takes in."""
    places = [place for member in members for place in inputs_of(other, member)]
    inner = {
        place
        for place in places
        if other.producer[place] >= 0
        and int(other.table.node[other.producer[place]]) in set(members)
    }
    places = [place for place in places if place not in inner]
    rows: list[tuple[int, int]] = []
    for row in inputs_of(flow, node):
        fitting = [
            place
            for place in places
            if _same_size(flow, other, row, place) and flow.table.numel[row] > 1
        ]
        equal = [one for one in fitting if flow.table.shape_id[row] == other.table.shape_id[one]]
        fitting = [*equal, *fitting] if by_size else equal
        if fitting:
            rows.append((row, fitting[0]))
            places.remove(fitting[0])
    return rows


def _linears(
    flow: Flow, free: list[int], other: Flow, other_free: list[int], weights_tell: bool
) -> list[Group]:
    """One linear against several: what goes in is the same, weights and outputs add up."""
    ones = [node for node in free if _weights(flow, node)]
    many = [node for node in other_free if _weights(other, node)]
    found: list[Group] = []
    taken: set[int] = set()
    for node in ones:
        runs = [
            many[begin:end]
            for begin in range(len(many))
            for end in range(begin + 2, min(begin + 4, len(many) + 1))
            if not taken & set(many[begin:end])
            if _adds_up(flow, other, node, many[begin:end], weights_tell)
        ]
        if len(runs) != 1:
            continue
        [run] = runs
        taken |= set(run)
        members, rows = _with_split(flow, free, node, other, run)
        rows.insert(0, (inputs_of(flow, node)[0], inputs_of(other, run[0])[0]))
        known = weights_tell and not np.isnan(flow.table.statistics[3, _weights(flow, node)]).any()
        certainty = _BY_WEIGHTS if known else _BY_SHAPES
        found.append(Group("linear", members, tuple(run), tuple(rows), certainty))
    return found


def _with_split(
    flow: Flow, free: list[int], node: int, other: Flow, run: list[int]
) -> tuple[tuple[int, ...], list[tuple[int, int]]]:
    """A linear with the call that splits what it puts out, and whose outputs these are."""
    size = flow.table.numel[outputs_of(flow, node)[0]]
    sizes = [other.table.numel[outputs_of(other, one)[0]] for one in run]
    for one in free[free.index(node) + 1 :]:
        given, parts = inputs_of(flow, one), outputs_of(flow, one)
        if not given or flow.table.numel[given[0]] != size:
            continue
        if [flow.table.numel[row] for row in parts] == sizes:
            rows = [(row, outputs_of(other, of)[0]) for row, of in zip(parts, run, strict=True)]
            return (node, one), rows
    return (node,), []


def _weights(flow: Flow, node: int) -> list[int]:
    """Rows of matrices that nobody puts out, as linears take them in, largest first."""
    table = flow.table
    rows = [
        row for row in inputs_of(flow, node)[1:] if flow.producer[row] < 0 and table.numel[row] > 1
    ]
    return rows if outputs_of(flow, node) else []


def _adds_up(flow: Flow, other: Flow, node: int, run: list[int], weights_tell: bool) -> bool:
    debug, reference = inputs_of(flow, node), [inputs_of(other, one) for one in run]
    shape = flow.table.shape_id[debug[0]]
    if any(other.table.shape_id[rows[0]] != shape for rows in reference):
        return False
    keys = {int(other.key[rows[0]]) for rows in reference}
    if len(keys) > 1:
        return False
    out = sum(other.table.numel[outputs_of(other, one)[0]] for one in run)
    if flow.table.numel[outputs_of(flow, node)[0]] != out:
        return False
    size, square = _total(flow.table, _weights(flow, node))
    sizes, squares = zip(*(_total(other.table, _weights(other, one)) for one in run), strict=True)
    if size != sum(sizes):
        return False
    is_unknown = not weights_tell or np.isnan(square) or np.isnan(sum(squares))
    return bool(is_unknown or _near(square, sum(squares)))


def _near(debug: float, reference: float) -> bool:
    return abs(debug - reference) <= 10 * EQUAL * max(debug, reference)


def _total(table: ParameterTable, rows: list[int]) -> tuple[float, float]:
    return float(table.numel[rows].sum()), float(np.square(table.statistics[3, rows]).sum())
