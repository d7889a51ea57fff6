"""Both runs of a comparison as columns: who is whose partner, and who made which tensor."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.calls import count_gradients_otherwise
from msprobe_builder.graph.floating import SINGLE, discrete_types, epsilons, in_use
from msprobe_builder.graph.memory import meaningless
from msprobe_builder.graph.part import Part, put_out_by
from msprobe_builder.graph.producers import producers
from msprobe_builder.metrics.result import PairResult
from msprobe_builder.operators import questions
from msprobe_builder.operators.operator import Kind
from msprobe_builder.verdict.differences.mispaired import (
    inside_cells,
    other_places,
    swapped_operands,
)
from msprobe_builder.verdict.differences.precision import has_other_precision

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
Float = NDArray[np.float64]


_ALL = 0b1111  # statistics
_DEEPEST = 64  # modules inside one another
_PLACING = {Kind.REPEAT, Kind.TURN, Kind.SORT, Kind.PICK, Kind.PLACE}


class Side(NamedTuple):
    """One run: its nodes' partners, and what its rows are compared with and made by."""

    part: Part
    partner: Int
    other: Int
    maker: Int
    origin: Int


@dataclass(frozen=True)
class Runs:
    """Columns by row of the npu table, unless they are named after the reference.

    ``other`` is the row of the reference that a row is compared with, ``maker`` the row that made
    it (-1 without), ``origin`` that of a call, looking through
    modules. ``coarse`` and ``fine`` are the rounding units of the two types, the larger
    and the smaller. Rows have 32 bits. ``open`` are modules whose calls were recorded, by node.
    """

    npu: Part
    bench: Part
    texts: Texts
    partner: Int  # by node
    bench_partner: Int
    other: Int
    summed: Bool  # compared with none, as sums over uses of a tensor were recorded on one side
    bench_row: Int  # by row of the reference, the npu row
    maker: Int
    bench_maker: Int
    origin: Int
    bench_origin: Int
    discrete: Bool
    coarse: Float
    fine: Float
    open: Bool
    is_mixed: bool  # the runs compute in other types
    by_sum: Bool  # of which a checksum alone tells
    # Memory that nobody has written to, or that nobody reads: on a side at least, and on both.
    meaningless: Bool
    meaningless_on_both: Bool

    @cached_property
    def sides(self) -> tuple[Side, Side]:
        """Both runs, this one first."""
        return (
            Side(self.npu, self.partner, self.other, self.maker, self.origin),
            Side(
                *(self.bench, self.bench_partner, self.bench_row),
                *(self.bench_maker, self.bench_origin),
            ),
        )

    @cached_property
    def other_operator(self) -> Bool:
        """Nodes that are paired with a call of another operator: what it puts out looks alike."""
        return self.npu.calls.by_other_operators(self.bench.calls, self.partner)

    @cached_property
    def backward(self) -> Bool:
        """Nodes of the backward pass."""
        return np.asarray(self.npu.calls.direction == Direction.BACKWARD)

    @cached_property
    def in_use(self) -> float:
        """The rounding unit of the coarsest type in use: what is finer was mostly made of it."""
        return in_use(self.coarse[self.other >= 0])

    @cached_property
    def choices_alone(self) -> tuple[Int, Int]:
        """By side the forward calls of it alone that put out what next to nothing is recorded of.

        Whole numbers or truth values, or elements at other places; in the order of the run.
        """
        found, whole = [], discrete_types(self.texts)
        for part, partner, *_ in self.sides:
            alone = part.calls.is_forward_call & (partner < 0)
            moves = alone & part.calls.are(lambda one: one.kind in _PLACING)
            discrete = whole[part.table.dtype_id] & part.table.is_tensor
            discrete |= moves[part.table.node]
            nodes = np.zeros(len(part.tree), dtype=bool)
            nodes[part.table.node[discrete & put_out_by(part, alone)]] = True
            found.append(np.flatnonzero(nodes))
        return found[0], found[1]

    def users(self, row: int) -> list[int]:
        """What calls and modules are given that a row has made, in the order of the run."""
        given, made = self._given
        first, last = np.searchsorted(made, [row, row + 1]).tolist()
        return [int(one) for one in given[first:last]]

    @cached_property
    def _given(self) -> tuple[Int, Int]:
        """What is given and has a maker, by this; and the makers."""
        given = np.flatnonzero((self.npu.table.section == Section.INPUT) & (self.maker >= 0))
        order = np.argsort(self.maker[given], kind="stable")
        return given[order], self.maker[given][order]

    def rows(self, *sections: Section) -> Bool:
        """Tensors of some sections."""
        column = self.npu.table.section
        found = np.asarray(column == int(sections[0]))  # an enumeration makes 64 bits of each
        for one in sections[1:]:
            found |= column == int(one)
        return found & self.npu.table.is_tensor


def runs_of(result: PairResult) -> Runs:
    """The columns of a comparison."""
    assert result.bench is not None
    assert result.matching is not None
    assert result.comparisons is not None
    npu = Part(result.npu.tree, result.npu.table)
    bench = Part(result.bench.tree, result.bench.table)
    other = np.full(len(npu.table), -1, dtype=np.int64)
    other[result.comparisons.pairs.npu] = result.comparisons.pairs.bench
    if result.groups is not None:
        pairs = result.groups.comparisons.pairs
        # What calls are given that others are one and the same with goes by its makers.
        new = (other[pairs.npu] < 0) & (npu.table.section[pairs.npu] == Section.OUTPUT)
        other[pairs.npu[new]] = pairs.bench[new]
    merged = any(graph.provenance for graph in (result.npu, result.bench))
    other[~_comparable(npu, bench, result.matching.npu, other, merged=merged)] = -1
    _exchange_operands(npu, bench, other)
    bench_row = np.full(len(bench.table), -1, dtype=np.int64)
    rows = np.flatnonzero(other >= 0)
    bench_row[other[rows]] = rows
    debug, reference = (epsilons(one.table.dtype_id, result.texts) for one in (npu, bench))
    coarse, fine = debug.copy(), debug.copy()
    coarse[rows] = np.maximum(debug[rows], reference[other[rows]])
    fine[rows] = np.minimum(debug[rows], reference[other[rows]])
    by_sum = _told_by_checksums(result)
    # Of what a checksum tells, too, something else is all that can be seen.
    discrete = discrete_types(result.texts)[npu.table.dtype_id] | by_sum
    mixed = has_other_precision(npu, bench.table, result.comparisons)
    maker, bench_maker = (
        np.asarray(producers(one.tree, one.calls, one.table), dtype=np.int64)
        for one in (npu, bench)
    )
    hollow, unread = meaningless(npu, maker, result.texts), np.zeros(len(npu.table), dtype=bool)
    unread[rows] = meaningless(bench, bench_maker, result.texts)[other[rows]]
    sums = np.zeros(len(other), dtype=bool)
    if mixed or in_use(coarse[rows]) > SINGLE:
        sums[_summed_over_uses(npu, maker)] = True
    by_others = npu.calls.by_other_operators(bench.calls, result.matching.npu)
    sums[_given_twice(npu, maker, other, bench, bench_maker, by_others)] = True
    sums &= other >= 0
    other[sums], coarse[sums], fine[sums] = -1, debug[sums], debug[sums]
    is_open = _open_modules(npu)
    return Runs(
        npu,
        bench,
        result.texts,
        result.matching.npu,
        result.matching.bench,
        _narrow(other),
        sums,
        _narrow(bench_row),
        _narrow(maker),
        _narrow(bench_maker),
        _narrow(_through_modules(npu, is_open, maker)),
        _narrow(_through_modules(bench, _open_modules(bench), bench_maker)),
        discrete,
        np.maximum(coarse, SINGLE),
        np.maximum(fine, SINGLE),
        is_open,
        mixed,
        by_sum,
        hollow | unread,
        hollow & unread,
    )


def _narrow(rows: Int) -> NDArray[Any]:
    """Rows of a table: of a million calls a column of them takes 25 MB with 64 bits."""
    return rows.astype(np.int32)


def _given_twice(
    npu: Part, maker: Int, other: Int, bench: Part, bench_maker: Int, by_others: Bool
) -> Int:
    """Gradients of a tensor that one side alone gives to a call in two places.

    What is recorded of each is their sum. Of other operators nobody knows where they are given one
    tensor, and where one turned about that looks the same.
    """
    rows = np.flatnonzero((other >= 0) & (npu.table.section == Section.OUTPUT))
    rows = rows[npu.calls.direction[npu.table.node[rows]] == Direction.BACKWARD]
    twice = [
        _of_doubled(part, made, at)
        for part, made, at in ((npu, maker, rows), (bench, bench_maker, other[rows]))
    ]
    is_other = by_others[npu.table.node[rows]] & (twice[0] | twice[1])
    return np.asarray(rows[(twice[0] != twice[1]) | is_other])


def _of_doubled(part: Part, maker: Int, rows: Int) -> Bool:
    """Which rows are gradients of what their forward call is given in another place as well."""
    table = part.table
    ahead = np.zeros(len(part.tree), dtype=bool)
    ahead[part.calls.twin[table.node[rows]]] = True
    given = np.flatnonzero((table.section == Section.INPUT) & table.is_tensor & (maker >= 0))
    given = given[(ahead & part.calls.is_forward_call)[table.node[given]]]
    key = table.node[given].astype(np.int64) * (len(table) + 1) + maker[given]
    order = np.argsort(key, kind="stable")
    key = key[order]
    alike = (np.diff(key, prepend=-1) == 0) | (np.diff(key, append=-1) == 0)
    several = given[order[alike]]
    shapes = 2 + int(table.shape_id.max(initial=0))
    asked = table.node[several].astype(np.int64) * shapes + table.shape_id[several]
    shown = part.calls.twin[table.node[rows]].astype(np.int64) * shapes + table.shape_id[rows]
    return np.asarray(np.isin(shown, asked))


def _summed_over_uses(part: Part, maker: Int) -> Int:
    """Gradients that calls give to weights which several calls of a pass have used.

    Autocast converts a weight once, and what the calls give to the converted one adds up before
    anybody sees it; where nothing is converted each call shows its own. The gradients of the
    parameters tell of both.
    """
    table, tree = part.table, part.tree
    made = np.append(table.section, -1)[maker] == Section.PARAMETERS
    used = np.flatnonzero(
        made & (table.section == Section.INPUT) & part.calls.is_forward_call[table.node]
    )
    weight = maker[used]
    key = np.stack([part.calls.stem[table.node[weight]], table.name_id[weight]])
    key = np.concatenate([key, tree.micro_step[table.node[used]][None]])
    _, which, times = np.unique(key, axis=1, return_inverse=True, return_counts=True)
    several = used[times[which.reshape(-1)] > 1]
    back = part.calls.twin[table.node[several]]
    several, back = several[back >= 0], back[back >= 0]
    width = 1 + int(table.position.max(initial=0))
    given = table.node.astype(np.int64) * width + table.position
    asked = back.astype(np.int64) * width + table.position[several]
    return np.flatnonzero(np.isin(given, asked) & (table.section == Section.OUTPUT))


def _told_by_checksums(result: PairResult) -> Bool:
    """Rows of which nothing but checksums was compared."""
    assert result.bench is not None
    assert result.comparisons is not None
    pairs, equal = result.comparisons.pairs, result.comparisons.md5_equal
    told = np.zeros(len(result.npu.table), dtype=bool)
    if equal is not None:
        sides = (result.npu.table, pairs.npu), (result.bench.table, pairs.bench)
        bare = [(table.missing[rows] & _ALL) == _ALL for table, rows in sides]
        told[pairs.npu[(equal >= 0) & (bare[0] | bare[1])]] = True
    return told


def _comparable(npu: Part, bench: Part, partner: Int, other: Int, *, merged: bool) -> Bool:
    """Rows that can be compared: of one size, in one place, and counted alike by both recorders."""
    result = (other >= 0) & ~inside_cells(npu)
    result &= ~other_places(npu, bench, partner, result)
    rows = np.flatnonzero(result)
    result[rows] = npu.table.numel[rows] == bench.table.numel[other[rows]]
    # Gradients of parameters add up over the passes of a step.
    adds_up_otherwise = not merged and npu.tree.micro_steps != bench.tree.micro_steps
    if adds_up_otherwise or count_gradients_otherwise(npu.calls, bench.calls):
        result &= npu.table.section != Section.PARAMETERS_GRAD
    return result


def _exchange_operands(npu: Part, bench: Part, other: Int) -> None:
    """Pair the operands of sums and products by what they hold where they come the other way."""
    table, commutes = npu.table, npu.calls.are(questions.commutes)
    off = (other >= 0) & (table.section == Section.INPUT) & commutes[table.node]
    rows = np.flatnonzero(off)
    debug, reference = npu.table.statistics[:, rows], bench.table.statistics[:, other[rows]]
    off[rows] = ((debug != reference) & ~(np.isnan(debug) & np.isnan(reference))).any(axis=0)
    first = np.flatnonzero(swapped_operands(npu.calls, npu.table, bench.table, other, off))[::2]
    other[first], other[first + 1] = other[first + 1], other[first]


def _open_modules(part: Part) -> Bool:
    """Modules inside of which calls were recorded."""
    before = np.append(0, np.cumsum(part.calls.is_api))
    result = part.calls.is_module & (before[part.tree.subtree_end + 1] > before[1:])
    result[0] = False  # the root, which nobody calls
    return np.asarray(result)


def _through_modules(part: Part, is_open: Bool, maker: Int) -> Int:
    """The makers of all rows, of what modules hand in and out the call inside, or before."""
    inside = np.append(is_open[part.table.node], False)
    result = np.append(maker, -1)
    further = np.flatnonzero(inside[result])  # the last, of no maker, is False
    for _ in range(_DEEPEST):
        made = result[result[further]]
        further, made = further[made >= 0], made[made >= 0]  # else the module's own is the last
        if not len(further):
            break
        result[further] = made
        further = further[inside[made]]
    return np.asarray(result[:-1])


def only_runs_forward(part: Part) -> bool:
    """Whether a side is inference: nothing it puts out needs a gradient, and nothing runs back."""
    calls, table = part.calls, part.table
    puts_out = table.is_tensor & (table.section == Section.OUTPUT)
    is_forward = calls.direction[table.node] == Direction.FORWARD
    needs = (puts_out & is_forward & (table.requires_grad == 1)).any()
    return not bool(needs or (calls.direction == Direction.BACKWARD).any())
