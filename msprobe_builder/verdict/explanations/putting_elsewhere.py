"""Calls that have put numbers elsewhere, found behind what shows it.

Transpositions of one side, copies that stand in another order, and what an index was made of.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.part import Part, inputs_of
from msprobe_builder.operators import questions
from msprobe_builder.operators.operator import Operator
from msprobe_builder.operators.table import operator_of
from msprobe_builder.verdict.differences.flow import Flow
from msprobe_builder.verdict.differences.operators import (
    Family,
)
from msprobe_builder.verdict.findings import Cause, Finding, Place

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_MOST_ROWS = 256  # looked at in the backward pass
_TERMS = 2  # of a sum


def of_index(flow: Flow, node: int) -> Place:
    """A call that may have moved values; of one that takes by an index what alone made that.

    Whole numbers at other places have equal statistics, too, so that a call of this side alone on
    the way to the index is likelier than the one that goes by it.
    """
    table = flow.npu.table
    alone = (flow.unmatched | (flow.grouped.npu >= 0)) & ~flow.npu.calls.are(_hands_on)
    known, waiting = {node}, inputs_of(table, node).tolist() if takes_by_index(flow, node) else []
    while waiting and len(known) < _MOST_ROWS:
        row = waiting.pop(0)
        made = int(flow.producer[row]) if flow.discrete[row] else -1
        source = int(table.node[made]) if made >= 0 else node
        if source not in known:
            known.add(source)
            if alone[source]:
                return Place(0, source, Cause.EXTRA)
            waiting += inputs_of(table, source).tolist()
    return Place(0, node, Cause.ORDER)


def turned_on_one_side(flow: Flow, finding: Finding, bits: Int) -> list[Place]:
    """Transpositions that one side alone makes before what is off, nearest first.

    Attention and convolutions are made of what stands beside one another: where one side turns
    what the other gives its shape by other means, it may stand elsewhere. A sum would have shown
    that before.
    """
    node = finding.at
    if finding.cause is not Cause.OUTPUT or (finding.side, finding.node) != (0, node):
        return []
    inputs = inputs_of(flow.npu.table, node)
    is_told = node in flow.arguments or flow.unmatched[node] or flow.grouped.npu[node] >= 0
    is_neighbourly = _is_neighbourly(operator_of(flow.npu.tree.parsed[node].stem))
    if is_told or not is_neighbourly or (bits[inputs] == 1).all():
        return []
    debug, reference = (_alone_before(flow, side, finding, questions.transposes) for side in (0, 1))
    if bool(debug) == bool(reference):
        return []  # none, or each its own: nobody knows what they come to
    cause = Cause.EXTRA if debug else Cause.MISSING
    return [Place(int(not debug), one, cause) for one in debug or reference]


def copied_otherwise(flow: Flow, finding: Finding, bits: Int) -> list[Place]:
    """Copies of one tensor that stand in another order before a product that is off.

    One side repeats the whole, the other each element, row or head: that is never the same order,
    and no statistic of the copies tells it. What heads of attention read then belongs to others.
    """
    node = finding.at
    if finding.cause is not Cause.OUTPUT or (finding.side, finding.node) != (0, node):
        return []
    inputs = inputs_of(flow.npu.table, node)
    is_told = node in flow.arguments or flow.unmatched[node] or flow.grouped.npu[node] >= 0
    if is_told or flow.family[node] != Family.PRODUCT or (bits[inputs] == 1).all():
        return []
    for here, there in ((_WHOLE, _EACH), (_EACH, _WHOLE)):
        debug = _alone_before(flow, 0, finding, here)
        reference = _alone_before(flow, 1, finding, there) if debug else []
        sizes = [_sizes(flow.bench, one) for one in reference]
        if found := [one for one in debug if _sizes(flow.npu, one) in sizes]:
            return [Place(0, one, Cause.EXTRA) for one in found]
    return []


def joined_alike(flow: Flow, finding: Finding, bits: Int) -> list[Place]:
    """Calls before a product that is off which join tensors that one call has put out alike.

    Rows and columns of a grid hold the same numbers: no statistic tells which of them is joined
    first, and the product, whose weights meet either of them, shows it.
    """
    node, table = finding.at, flow.npu.table
    if finding.cause is not Cause.OUTPUT or (finding.side, finding.node) != (0, node):
        return []
    is_told = node in flow.arguments or flow.unmatched[node] or flow.grouped.npu[node] >= 0
    inputs = inputs_of(table, node)
    if is_told or flow.family[node] != Family.PRODUCT or (bits[inputs] == 1).all():
        return []
    joins = _before_sums(flow.npu, flow.producer, node, flow.npu.calls.are(questions.joins))
    return [Place(0, one, Cause.ORDER) for one in joins if _takes_twins(flow, one)]


def _takes_twins(flow: Flow, node: int) -> bool:
    """Whether a call is given two tensors of equal statistics which one call has put out."""
    table, rows = flow.npu.table, inputs_of(flow.npu.table, node)
    made = flow.producer[rows]
    for row in made[made >= 0].tolist():
        first, last = np.searchsorted(table.node, [table.node[row], table.node[row] + 1]).tolist()
        beside = np.arange(first, last)
        beside = beside[table.section[beside] == Section.OUTPUT]
        if min(_alike(flow.npu, row, beside), _alike(flow.npu, row, rows)) > 1:
            return True
    return False


def _alike(part: Part, row: int, rows: Int) -> int:
    """How many of the rows look like one of more than a single number."""
    table = part.table
    same = (table.statistics[:, rows] == table.statistics[:, [row]]).all(axis=0)
    same &= table.shape_id[rows] == table.shape_id[row]
    return int(same.sum()) if table.statistics[0, row] != table.statistics[1, row] else 0


_WHOLE, _EACH = questions.one_of("repeat"), questions.one_of("repeat_interleave")
_hands_on = questions.any_of(questions.slices, questions.shapes)


def _is_neighbourly(operator: Operator) -> bool:
    """Whether it tells which rows, or which places, stand beside one another."""
    return not operator.traits.isdisjoint({"attention", "convolution"})


def _sizes(part: Part, node: int) -> list[int]:
    """The shapes of what a call is given and puts out."""
    first, last = np.searchsorted(part.table.node, [node, node + 1]).tolist()
    is_tensor = part.table.is_tensor[first:last]
    return [int(one) for one in part.table.shape_id[first:last][is_tensor]]


def _alone_before(flow: Flow, side: int, finding: Finding, kinds: questions.Question) -> list[int]:
    """Calls of these kinds that one side makes alone on the way to a call, nearest first.

    Up to where sums are made, which would have shown it.
    """
    if side:
        part, producer, node = flow.bench, flow.bench_producer, int(flow.partner[finding.at])
        alone = flow.bench_unmatched | (flow.grouped.bench >= 0)
    else:
        part, producer, node = flow.npu, flow.producer, finding.at
        alone = flow.unmatched | (flow.grouped.npu >= 0)
    return _before_sums(part, producer, node, part.calls.are(kinds) & alone)


def _before_sums(part: Part, producer: Int, node: int, wanted: Bool) -> list[int]:
    """The wanted calls on the way to another, nearest first, up to where sums are made."""
    if not wanted.any():
        return []
    adds = part.calls.are(questions.adds)
    found: list[int] = []
    known, waiting = {node}, inputs_of(part.table, node).tolist()
    for _ in range(_MOST_ROWS):
        row = int(producer[waiting.pop(0)]) if waiting else -1
        if row < 0:
            if not waiting:
                break
            continue
        source = int(part.table.node[row])
        if part.calls.is_module[source]:
            waiting.append(row)
        elif source not in known:
            known.add(source)
            if wanted[source]:
                found.append(source)
            inputs = inputs_of(part.table, source)
            if not adds[source] or len(inputs) < _TERMS:
                waiting += inputs.tolist()
    return found


def takes_by_index(flow: Flow, node: int) -> bool:
    is_selection = flow.family[node] == Family.SELECTION
    return bool(is_selection and flow.discrete[inputs_of(flow.npu.table, node)].any())
