"""Calls that are off because what they were given stands in another order.

Maximum, minimum, mean and norm are the same in any order of the elements, so weights whose rows
were exchanged, or an index that was transposed, show only where positions begin to matter. The
call that shows it is no culprit when it cannot have done otherwise: one that picks, or a sum whose
mean is right although a wrong share of any of its terms would show in it. Of a product, element by
element, that is far off but no multiple of what it should be, nobody can tell, nor of what puts
elements where an index says, or of a loss that picks what labels name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.dump.shapes import parse_shape
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.part import inputs_of, outermost
from msprobe_builder.metrics.checksum import is_in_any_order
from msprobe_builder.metrics.comparison import Comparisons
from msprobe_builder.operators import questions
from msprobe_builder.operators.operator import Operator
from msprobe_builder.operators.table import operator_of
from msprobe_builder.verdict.differences.consumers import makers
from msprobe_builder.verdict.differences.flow import Flow
from msprobe_builder.verdict.differences.operators import (
    Family,
)
from msprobe_builder.verdict.explanations.putting_elsewhere import (
    copied_otherwise,
    joined_alike,
    of_index,
    takes_by_index,
    turned_on_one_side,
)
from msprobe_builder.verdict.findings import SUSPICIOUS, Cause, Finding, Place

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_MAX, _MIN, _MEAN, _NORM = range(4)
_FAR = 2.0**-6  # no rounding of any precision in use
_MOST_ROWS = 256  # looked at in the backward pass
_SHOWN = 4
_LITTLE = 1 / 16  # of what a mean moves by when a term counts otherwise
_LEFT_OPEN = 0.5  # of what a factor changes
_OF_SUMS = 0.25  # whose extremes and norm change each for itself in another order


def bits_of(comparisons: Comparisons, table: ParameterTable) -> Int | None:
    """Of each npu row 1 for equal bits, 0 for others, else -1; None where their order is known.

    Nor is it known where equal checksums are the same in any order.
    """
    if "relative_difference" in comparisons.metrics:
        return None
    result = np.full(len(table), -1, dtype=np.int64)
    if comparisons.md5_equal is not None:
        result[comparisons.pairs.npu] = comparisons.md5_equal
        any_order = [row for row, text in table.md5.items() if is_in_any_order(text)]
        result[any_order] = np.where(result[any_order] == 0, 0, -1)
    return result


def shows_another_order(flow: Flow, finding: Finding, bits: Int) -> bool:
    """Whether a call that is off is right for inputs whose values stand at other places.

    ``bits`` by row as from :func:`bits_of`: where all inputs are equal to the last bit, none does.
    """
    node = finding.at
    if finding.cause is not Cause.OUTPUT or (finding.side, finding.node) != (0, node):
        return False
    if node in flow.arguments or flow.grouped.npu[node] >= 0 or not flow.npu.calls.is_api[node]:
        return False
    if flow.unmatched[node]:
        return False  # that the reference makes other calls explains more
    name = flow.npu.tree.parsed[node]
    operator = operator_of(name.stem)
    if name.direction is not Direction.FORWARD or not _is_positional(operator):
        return False
    inputs = inputs_of(flow.npu.table, node)
    table = flow.npu.table
    constant = table.statistics[_MAX, inputs] == table.statistics[_MIN, inputs]  # in any order
    known = (flow.bench_of[inputs] >= 0) & ~np.isnan(flow.error[inputs])
    known &= flow.informative[inputs] | (constant & _goes_by_index(operator))
    if not len(inputs) or not known.all() or (bits[inputs] == 1).all():
        return False
    if questions.slices(operator):  # by an index, it may be what is wrong with it
        return not takes_by_index(flow, node) and _may_be_picked(flow, finding, inputs)
    if len(inputs) < 2 or _goes_by_index(operator):
        return len(inputs) > 1
    return (_keeps_its_mean if questions.adds(operator) else _is_no_multiple)(flow, finding, inputs)


def _goes_by_index(operator: Operator) -> bool:
    """Whether an index says where elements go, or labels which are picked.

    The index may be what is wrong, and labels may be in another order, or stand in one.
    """
    return questions.places(operator) or "by_label" in operator.traits


_is_product = questions.one_of("mul")
_is_positional = questions.any_of(questions.slices, questions.adds, _is_product, _goes_by_index)


def _may_be_picked(flow: Flow, finding: Finding, inputs: Int) -> bool:
    """Whether what is put out may be a part of what was given: no larger, and no multiple."""
    reference = flow.bench.table.statistics[:, flow.bench_of[finding.row]]
    debug = flow.npu.table.statistics[:, finding.row]
    given = flow.npu.table.statistics[:, inputs]
    rounding = SUSPICIOUS * max(finding.expected, float(flow.floor[finding.row]))
    if reference[_MAX] == reference[_MIN]:
        return True
    slack = rounding * np.abs(given[:2]).max()
    if debug[_MAX] > given[_MAX].max() + slack or debug[_MIN] < given[_MIN].min() - slack:
        return False
    with np.errstate(all="ignore"):
        times = debug[[_MAX, _MIN, _NORM]] / reference[[_MAX, _MIN, _NORM]]
        return not np.ptp(times) <= rounding * np.abs(times).max()


def _keeps_its_mean(flow: Flow, finding: Finding, inputs: Int) -> bool:
    """Whether the mean is right, and would not be if a term counted otherwise by the error.

    Where rounding hides how a term counts, the mean of a sum is still that of its own terms. Terms
    in another order never make a multiple of the sum.
    """
    row = finding.row
    if is_one_factor(flow, finding, _OF_SUMS):
        return False
    if _adds_its_means(flow, row, inputs):
        return True
    reference = flow.bench.table.statistics[:, flow.bench_of[row]]
    debug = flow.npu.table.statistics[:, row]
    size = float(flow.scale[row])
    with np.errstate(all="ignore"):
        norm = abs(debug[_NORM] - reference[_NORM]) / reference[_NORM]
        off = abs(debug[_MEAN] - reference[_MEAN])
        rounding = SUSPICIOUS * max(finding.expected, float(flow.floor[row])) * size
        shares = np.abs(flow.npu.table.statistics[_MEAN, inputs])
        return bool(off <= rounding and off < norm * shares.min(initial=np.inf) * _LITTLE)


def _adds_its_means(flow: Flow, row: int, inputs: Int) -> bool:
    """Whether the mean of a sum is the sum of the means that its terms have in the same run.

    Rounding of elements averages out in a mean.
    """
    table = flow.npu.table
    signs = np.ones(len(inputs))
    operator = operator_of(flow.npu.tree.parsed[table.node[row]].stem)
    if operator.name in ("sub", "rsub"):
        signs[1:] = -1.0
    total = float(np.sum(table.statistics[_MEAN, inputs] * signs))
    if operator.name == "rsub":
        total = -total
    with np.errstate(all="ignore"):
        rounding = SUSPICIOUS * flow.floor[row] * flow.scale[row] / np.sqrt(table.numel[row])
        return bool(abs(float(table.statistics[_MEAN, row]) - total) <= rounding)


def _is_no_multiple(flow: Flow, finding: Finding, inputs: Int) -> bool:
    """Whether a product is far off, within what its factors may give, and not by one factor."""
    reference = flow.bench.table.statistics[:, flow.bench_of[finding.row]]
    debug = flow.npu.table.statistics[:, finding.row]
    rounding = SUSPICIOUS * max(finding.expected, float(flow.floor[finding.row]))
    with np.errstate(all="ignore"):
        times = debug[[_MAX, _MIN, _NORM]] / reference[[_MAX, _MIN, _NORM]]
        largest = np.abs(flow.npu.table.statistics[:2, inputs]).max(axis=0).prod()
        within = np.abs(debug[:2]).max() <= largest * (1 + rounding)
    if not np.isfinite(times).all() or finding.error < max(_FAR, rounding):
        return False
    return bool(within and not is_one_factor(flow, finding))


def is_one_factor(flow: Flow, finding: Finding, left_open: float = _LEFT_OPEN) -> bool:
    """Whether it is off by one factor, and what that leaves open is little beside it."""
    reference = flow.bench.table.statistics[:, flow.bench_of[finding.row]]
    debug = flow.npu.table.statistics[:, finding.row]
    rounding = SUSPICIOUS * max(finding.expected, float(flow.floor[finding.row]))
    with np.errstate(all="ignore"):
        times = debug[[_MAX, _MIN, _NORM]] / reference[[_MAX, _MIN, _NORM]]
        spread = float(np.ptp(times))
        is_multiple = spread <= rounding * np.abs(times).max()
        return bool(is_multiple and spread <= left_open * np.abs(times - 1).max())


def is_given_first_gradient(flow: Flow, finding: Finding, bits: Int | None) -> bool:
    """Whether a gradient is off that was made of the loss's, with modules alone recorded.

    Where labels stand in another order, the gradient that the loss gives back has the statistics
    of the reference, and the first product that it goes into shows it.
    """
    table, tree, calls = flow.npu.table, flow.npu.tree, flow.npu.calls
    node = finding.at
    if bits is None or calls.is_api.any() or finding.side or finding.cause is not Cause.OUTPUT:
        return False
    if table.section[finding.row] == Section.PARAMETERS_GRAD:
        node = int(tree.parent[node])
    if calls.direction[node] != Direction.BACKWARD or not calls.is_module[node]:
        return False
    rows = inputs_of(table, node)
    before = calls.is_module[:node] & (calls.direction[:node] == Direction.BACKWARD)
    before &= (tree.micro_step[:node] == tree.micro_step[node]) & (tree.subtree_end[:node] < node)
    return bool(len(rows) and not before.any() and (flow.producer[rows] < 0).any()) and bool(
        (bits[rows] != 1).any()
    )


def may_have_moved_before(flow: Flow, finding: Finding, bits: Int | None) -> bool:
    """Whether a module is given what calls made that nobody recorded, in any order.

    Of modules alone nothing tells whether heads were put together in another order before. That
    what comes out is a multiple of what it should be, no order explains.
    """
    node, calls = finding.at, flow.npu.calls
    if bits is None or calls.is_api.any() or (finding.side, finding.node) != (0, node):
        return False
    if finding.cause is not Cause.OUTPUT or calls.direction[node] != Direction.FORWARD:
        return False
    rows = inputs_of(flow.npu.table, node)
    shape, origin = flow.npu.table.shape_id, makers(flow.npu.table, flow.producer, rows)
    # What has another shape since was moved, if only by a view.
    unknown = (origin < 0) | (shape[origin] != shape[rows])
    # Whole numbers are places and names, truth values a mask.
    is_mask = flow.npu.table.statistics[_MAX, rows] == 1
    is_mask &= flow.npu.table.statistics[_MIN, rows] == 0
    rows = rows[unknown & (bits[rows] != 1) & (~flow.discrete[rows] | is_mask)]
    before = flow.npu.tree.micro_step[:node] == flow.npu.tree.micro_step[node]
    if not len(rows) or not (before & calls.is_module[:node]).any():
        return False
    debug = flow.npu.table.statistics[:, finding.row]
    reference = flow.bench.table.statistics[:, flow.bench_of[finding.row]]
    with np.errstate(all="ignore"):
        times = debug[[_MAX, _MIN, _NORM]] / reference[[_MAX, _MIN, _NORM]]
        rounding = SUSPICIOUS * max(finding.expected, float(flow.floor[finding.row]))
        return not np.ptp(times) <= rounding * np.abs(times).max()


@dataclass(frozen=True)
class Moved:
    """Calls that may have moved the values of a finding, likeliest first.

    ``is_only``: the call that shows it is no culprit, and there is but one other.
    """

    makers: tuple[Place, ...]
    is_only: bool


def moved_values(
    flow: Flow, findings: list[Finding], bits: Int | None, texts: Texts
) -> dict[int, Moved]:
    """Who may have moved values, by the number of each finding that shows another order.

    Calls that take elements by an index that is a tensor come first, then products, whose rows may
    stand in another order as their weights do; the nearest first. None whose bits are the
    reference's. A call that shows it and is not cleared comes before them.
    """
    if bits is None:
        return {}
    table, result = flow.npu.table, {}
    for number, finding in enumerate(findings):
        if moved := [
            *turned_on_one_side(flow, finding, bits),
            *copied_otherwise(flow, finding, bits),
            *joined_alike(flow, finding, bits),
        ]:
            result[number] = Moved(tuple(moved[:_SHOWN]), False)
        if not shows_another_order(flow, finding, bits):
            continue
        same = set(table.node[(bits == 1) & (table.section == Section.OUTPUT)].tolist())
        every = list(_before(flow, finding.at))
        found = [node for node in every if node >= 0 and node not in same]
        found.sort(key=lambda node: flow.family[node] == Family.PRODUCT)
        operator = operator_of(flow.npu.tree.parsed[finding.at].stem)
        if _is_product(operator) or _goes_by_index(operator) or not found:
            found.insert(0, finding.at)
        # Samples may have come in another order from the first call on.
        is_only = questions.slices(operator) and len(every) == 1 and found == every
        is_only &= not takes_samples(flow, finding.row, texts)
        # What is off by little may as well have been rounded.
        if is_only and finding.error < _FAR:
            found, is_only = [finding.at, *found], False
        places = [of_index(flow, node) for node in found[:_SHOWN]]
        result[number] = Moved(tuple(places), is_only)
    return result


def takes_samples(flow: Flow, row: int, texts: Texts) -> bool:
    """Whether a call that picks puts out, with this row, some places of the first dimension.

    No other call that treats all samples alike shows in which order they came. These are as many as
    the data of the micro-step holds, or a multiple, where each of them has become several rows.
    """
    table, node = flow.npu.table, int(flow.npu.table.node[row])
    given = inputs_of(table, node)
    if not len(given) or not flow.npu.calls.are(questions.slices)[node]:
        return False
    shapes = [int(table.shape_id[one]) for one in (row, int(given[0]))]
    own, whole = (parse_shape(texts, shape) for shape in shapes)
    if min(shapes) < 0 or not whole:
        return False
    if own != whole[1:] and not (own[1:] == whole[1:] and own[0] < whole[0]):
        return False
    return any(size > 1 and whole[0] % size == 0 for size in _sizes_of_data(flow, node, texts))


def _sizes_of_data(flow: Flow, node: int, texts: Texts) -> set[int]:
    """First sizes of what the outermost modules of a micro-step are given, else its first call."""
    tree, calls, table = flow.npu.tree, flow.npu.calls, flow.npu.table
    ahead = outermost(flow.npu) & (calls.direction == Direction.FORWARD)
    first = np.flatnonzero(ahead & (tree.micro_step == tree.micro_step[node])).tolist()
    result: set[int] = set()
    for one in sorted(first, key=lambda one: not calls.is_module[one]):
        if result and not calls.is_module[one]:
            break
        shapes = [parse_shape(texts, int(table.shape_id[row])) for row in inputs_of(table, one)]
        result |= {shape[0] for shape in shapes if shape}
    return result


def _before(flow: Flow, node: int) -> Iterator[int]:
    """The first calls on each backward pass behind which another order has no earlier cause.

    -1 for a way that leads to no call.
    """
    known, waiting = {node}, inputs_of(flow.npu.table, node).tolist()
    for _ in range(_MOST_ROWS):
        if not waiting:
            return
        row = int(flow.producer[waiting.pop(0)])
        source = int(flow.npu.table.node[row])
        if row < 0:
            yield -1
        elif flow.npu.calls.is_module[source]:
            waiting.append(row)  # it hands on what it was given or what was made inside
        elif source not in known:
            known.add(source)
            if flow.family[source] == Family.PRODUCT or takes_by_index(flow, source):
                yield source
            else:
                waiting += inputs_of(flow.npu.table, source).tolist()
