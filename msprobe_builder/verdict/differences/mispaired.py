"""Pairs of tensors that do not belong together, as calls of two implementations may be matched.

A tensor that is right wherever it goes was not wrong where it came from: there it was compared with
another one. And a sum does not mind which of its operands comes first.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.calls import Calls
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.part import Part
from msprobe_builder.operators import questions
from msprobe_builder.verdict.findings import SUSPICIOUS

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_ALIKE = 1e-3  # of two tensors that are one but for the order of operands


def mispaired(
    calls: Calls,
    table: ParameterTable,
    error: Float,
    floor: Float,
    producer: Int,
    informative: Bool,
) -> Bool:
    """Rows of the npu table whose pairs say nothing.

    Of a call whose output is right where it is used these are all its rows, of a module's input
    that row alone.
    """
    off = error > SUSPICIOUS * floor
    used = np.flatnonzero((producer >= 0) & (table.section == Section.INPUT) & ~np.isnan(error))
    # One tensor of this run against two of the reference: where it fits far better it belongs.
    # That more is allowed where it is used, as in products, says nothing.
    fits = error[used] <= np.nan_to_num(error[producer[used]]) / SUSPICIOUS
    right, wrong = np.zeros(len(table), dtype=bool), np.zeros(len(table), dtype=bool)
    right[producer[used[fits & informative[used]]]] = True
    wrong[producer[used[off[used] & ~fits]]] = True
    cleared = off & right & ~wrong
    cleared &= ~_given_twice(table, cleared)
    nodes = np.zeros(len(calls.kind), dtype=bool)
    nodes[table.node[cleared & (table.section == Section.OUTPUT)]] = True
    result = cleared | (nodes & calls.is_api)[table.node]
    return np.asarray(result, dtype=bool)


def shares_of_gradients(part: Part, producer: Int, error: Float, off: Bool) -> Bool:
    """Rows of backward calls of what hands a tensor on as it is, if the whole gradient agrees.

    Of such a tensor, as ``nn.Identity`` has it, some recorders tell the gradient of its use behind
    the call, others that of all uses, which is the one that reaches who made the tensor.
    """
    table, twin = part.table, part.calls.twin
    first: list[Int] = []
    for section in (Section.INPUT, Section.OUTPUT):
        rows = np.flatnonzero(table.is_tensor & (table.section == section))[::-1]
        first.append(np.full(len(part.tree), -1, dtype=np.int64))
        first[-1][table.node[rows]] = rows  # of each call the first, which is written last
    given, put_out = first
    backward = np.unique(table.node[off & (part.calls.direction == Direction.BACKWARD)[table.node]])
    backward = backward[twin[backward] >= 0]
    taken, handed = given[twin[backward]], put_out[twin[backward]]
    same = (taken >= 0) & (handed >= 0) & (table.numel[taken] == table.numel[handed])
    same &= (table.statistics[:, taken] == table.statistics[:, handed]).all(axis=0)
    maker = np.where(same, producer[taken], -1)
    back = np.where(maker >= 0, twin[table.node[maker]], -1)
    reached = np.where(back >= 0, given[back], -1)
    agrees = (reached >= 0) & (error[reached] == error[reached]) & ~off[reached]
    agrees &= table.numel[reached] == table.numel[taken]
    nodes = np.zeros(len(part.tree), dtype=bool)
    nodes[backward[agrees]] = True
    return np.asarray(off & nodes[table.node])


def _given_twice(table: ParameterTable, doubtful: Bool) -> Bool:
    """Those ``doubtful`` inputs of calls that are given the same tensor at another place, too.

    Which of the two is used inside nobody can tell: that it is right there clears neither.
    """
    result = np.zeros(len(table), dtype=bool)
    for row in np.flatnonzero(doubtful & (table.section == Section.INPUT)).tolist():
        first, last = np.searchsorted(table.node, [table.node[row], table.node[row] + 1])
        others = np.arange(first, last)
        others = others[(others != row) & (table.section[others] == Section.INPUT)]
        same = table.statistics[:, others] == table.statistics[:, row, None]
        result[row] = bool(same.all(axis=0).any())
    return result


def other_parameters(
    npu: ParameterTable, bench: ParameterTable, bench_of: Int, texts: Texts
) -> Bool:
    """Rows that are compared with one of another number of elements or another keyword."""
    rows = np.flatnonzero(bench_of >= 0)
    there = bench_of[rows]
    keyword = np.array([_is_keyword(text) for text in texts.values] + [False])
    own, other = npu.name_id[rows], bench.name_id[there]
    wrong = (npu.numel[rows] != bench.numel[there]) & (npu.numel[rows] == npu.numel[rows])
    wrong |= (own != other) & keyword[own] & keyword[other] & (npu.section[rows] == Section.INPUT)
    result = np.zeros(len(npu), dtype=bool)
    result[rows[wrong]] = True
    return result


def resized(
    npu: Part, bench: Part, partner: Int, bench_of: Int, off: Bool, told: Iterable[int]
) -> Bool:
    """Which npu calls put out something of another size because they were told so.

    ``told`` are calls with arguments that differ. One of the same name that is given the same
    tensors belongs to its partner, whatever the size of what comes out: a number of best elements,
    a range. What depends on the data alone, as with masks, is no evidence of that.
    """
    table = npu.table
    numbers = {stem: number for number, stem in enumerate(npu.calls.stems)}
    known = bench.calls.of_stems(lambda stem: numbers.get(stem, -1))
    given = table.is_tensor & (table.section == Section.INPUT)
    same = (bench_of >= 0) & ~off
    same[same] = table.numel[same] == bench.table.numel[bench_of[same]]
    result, differs = (np.zeros(len(npu.tree), dtype=bool) for _ in range(2))
    result[[node for node in told if npu.calls.stem[node] == known[partner[node]]]] = True
    differs[table.node[given & ~same]] = True
    has_any = np.zeros_like(result)
    has_any[table.node[given]] = True
    return np.asarray(result & has_any & ~differs)


def _is_keyword(name: str) -> bool:
    section, _, rest = name.partition(".")
    return section == "input" and bool(rest) and not rest[0].isdigit()


def other_places(npu: Part, bench: Part, partner: Int, off: Bool) -> Bool:
    """Rows of later arguments of calls of another name that differ: their order may be another."""
    table = npu.table
    numbers = {stem: number for number, stem in enumerate(npu.calls.stems)}
    known = bench.calls.of_stems(lambda stem: numbers.get(stem, -1))
    renamed = (partner >= 0) & npu.calls.is_api & (npu.calls.stem != known[partner])
    later = (table.section == Section.INPUT) & (table.position > 0)
    return np.asarray(off & later & renamed[table.node])


# One kernel on an accelerator, several calls elsewhere.


def inside_cells(npu: Part) -> Bool:
    """Gradients of a recurrent cell that depend on what its kernel is made of.

    The hidden state is made of the cell state: where that is a call of its own the gradient of the
    cell state holds its share, where one kernel makes both it does not. What the call sends back
    is that of its last node, whichever that is.
    """
    table, calls = npu.table, npu.calls
    is_back = calls.direction == Direction.BACKWARD
    is_cell = calls.are(lambda one: "cell" in one.traits)
    of_module = calls.do(questions.one_of("lstm_cell"))
    first = (table.section == Section.INPUT) & (table.position == 0)
    state = (table.section == Section.INPUT) & (table.position == 1)
    found = (is_back & calls.is_api & is_cell)[table.node] & ~first
    return np.asarray(found | ((is_back & calls.is_module & of_module)[table.node] & state))


def other_edges(table: ParameterTable, rows: Int, off: Bool, producer: Int) -> Bool:
    """Those ``rows``, inputs of groups, that differ though what they came from agrees.

    Their order is no call's: which belongs to which was guessed. Where another tensor is given
    indeed, what the group puts out is off.
    """
    result = np.zeros(len(table), dtype=bool)
    inputs = rows[off[rows] & (table.section[rows] == Section.INPUT) & (producer[rows] >= 0)]
    result[inputs[~off[producer[inputs]]]] = True
    return result


def swapped_operands(
    calls: Calls, npu: ParameterTable, bench: ParameterTable, bench_of: Int, off: Bool
) -> Bool:
    """Rows of two operands that are each other's partner; ``off`` are rows that differ."""
    result = np.zeros(len(npu), dtype=bool)
    first = np.flatnonzero(off[:-1] & off[1:] & (npu.node[:-1] == npu.node[1:]))
    inputs = (npu.section[first] == Section.INPUT) & (npu.section[first + 1] == Section.INPUT)
    first = first[inputs & (npu.position[first] == 0)]
    first = first[calls.are(questions.commutes)[npu.node[first]]]
    here, there = bench_of[first], bench_of[first + 1]
    alike = _alike(npu.statistics[:, first], bench.statistics[:, there])
    alike &= _alike(npu.statistics[:, first + 1], bench.statistics[:, here])
    result[first[alike]] = result[first[alike] + 1] = True
    return result


def _alike(own: Float, other: Float) -> Bool:
    """Whether statistics of shape (4, n) are those of one tensor."""
    with np.errstate(all="ignore"):
        size = np.fmax(np.abs(other[:2]).max(axis=0), 1e-30)
        change = np.abs(own - other)[[0, 1, 3]] / np.stack([size, size, other[3]])
    return np.asarray(np.nan_to_num(change, nan=1.0).max(axis=0) < _ALIKE)
