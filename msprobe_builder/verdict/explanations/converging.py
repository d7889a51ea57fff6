"""Where two programs part and meet again: another formula for the same is no fault.

Calls in between are off, as they compute something else; what comes of them agrees. Where both
sides make the same calls in between, a fault may be hidden, by a gate that is closed as yet.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.part import Part, inputs_of
from msprobe_builder.verdict.differences.flow import Flow
from msprobe_builder.verdict.explanations.certainty import HALF
from msprobe_builder.verdict.findings import OF_ONE_SIDE, SUSPICIOUS, Cause, Finding

Int = NDArray[np.int64]

_MOST = 512  # calls in between
_ONCE = 1.0  # what rounds once is off by no more units
_NO_FORMULA = (Cause.RANK, Cause.WEIGHT, Cause.WEIGHTS)  # what is off there nobody computed


def meets_again(flow: Flow, finding: Finding) -> bool:
    """Whether all that comes of a finding agrees behind calls that each side has of its own."""
    calls, node = flow.npu.calls, finding.at
    if finding.row < 0 or not calls.is_api.any() or finding.cause in _NO_FORMULA:
        return False
    if finding.node in flow.arguments and not finding.side:
        return False
    # Where most is in half precision, what is in single precision was made of them.
    unit = float(np.median(flow.floor[flow.counts]))
    expected = max(finding.expected, unit if unit > HALF else 0.0)
    finding = replace(finding, expected=expected)
    most = SUSPICIOUS
    between, met = _until_it_agrees(flow, node, finding, most, into_modules=False)
    if not met and unit > HALF and finding.cause in OF_ONE_SIDE:
        most = _ONCE
        between, met = _until_it_agrees(flow, node, finding, most, into_modules=True)
        met = met if all(_are_off(flow, one, expected, SUSPICIOUS) for one in met) else []
    if not met:
        return False
    before = _that_are_off(flow, node)
    alone = (flow.unmatched | (flow.grouped.npu >= 0))[[*between, *before]].any()
    debug_has_more = bool(alone) or _is_other_name(flow, before)
    if finding.side and not debug_has_more:
        # A step that is left out: no gate hides what cancels in a ratio.
        return all(_are_off(flow, one, expected, most) > 1 for one in met)
    return _reference_has_more(flow, finding, [*between, *met])


def _are_off(flow: Flow, node: int, expected: float, most: float) -> int:
    """How many of the tensors that a call is given are off."""
    rows = inputs_of(flow.npu.table, node)
    rounding = most * np.fmax(flow.floor[rows], expected)
    return int(np.count_nonzero(flow.error[rows] > rounding))


def _until_it_agrees(
    flow: Flow, start: int, finding: Finding, most: float, *, into_modules: bool
) -> tuple[list[int], list[int]]:
    """Calls that are off, and those behind them that agree; none where one has no end.

    What a call is given may be off and what it puts out agree: the ways meet in the call itself.
    In half precision a fault is thinned out step by step until nothing tells it from rounding, so
    that ways end at modules there: ``into_modules`` asks for ``most`` as little as one rounding.
    """
    between: list[int] = []
    met: list[int] = []
    is_given = flow.npu.table.section[finding.row] == Section.INPUT
    if is_given and flow.npu.calls.kind[start] == Kind.API:
        waiting = [start]
    else:
        between, waiting = [start], _behind(flow, start, into_modules=into_modules)
    known = {start, *waiting}
    while waiting:
        node = waiting.pop()
        if _agrees(flow, node, finding.expected, most):
            met.append(node)
            continue
        behind = _behind(flow, node, into_modules=into_modules)
        if len(between) >= _MOST or not behind:
            return between, []
        between.append(node)
        waiting += [one for one in behind if one not in known]
        known.update(behind)
    return between, met


def _behind(flow: Flow, node: int, *, into_modules: bool) -> list[int]:
    """The calls of the same pass that are given what a call puts out, and read it.

    What goes into a module or out of one is read by the calls in it, or behind it; in half
    precision ``into_modules`` alone. A gradient that is part of a sum reaches who made the tensor.
    """
    calls, table = flow.npu.calls, flow.npu.table
    first, last = np.searchsorted(table.node, [node, node + 1]).tolist()
    waiting = [row for row in range(first, last) if table.section[row] == Section.OUTPUT]
    found: dict[int, None] = {}
    while waiting:
        row = waiting.pop()
        own = int(table.node[row])
        around = int(flow.npu.tree.parent[own])
        handed_out = _rows(flow, around, Section.OUTPUT) if calls.is_module[around] else []
        read = [
            one
            for reader in set(flow.consumers.of(own))
            for one in _rows(flow, reader, Section.INPUT)
        ]
        for one in [*read, *handed_out]:
            reader = int(table.node[one])
            if flow.producer[one] != row or calls.direction[reader] != calls.direction[node]:
                continue
            if calls.is_module[reader]:
                waiting += [one] if into_modules or flow.floor[one] < HALF else []
            elif not flow.npu.tree.parsed[reader].stem.rstrip("_").endswith("_like"):
                found[reader] = None
    if calls.direction[node] == Direction.BACKWARD and (twin := int(flow.twin[node])) >= 0:
        made = flow.producer[_rows(flow, twin, Section.INPUT)]
        back = flow.twin[table.node[made[made >= 0]]].tolist()
        found |= dict.fromkeys(one for one in back if one >= 0 and calls.kind[one] == Kind.API)
    return list(found)


def _rows(flow: Flow, node: int, section: Section) -> list[int]:
    table = flow.npu.table
    first, last = np.searchsorted(table.node, [node, node + 1]).tolist()
    return [row for row in range(first, last) if table.section[row] == section]


def _that_are_off(flow: Flow, node: int) -> list[int]:
    """The calls that lead to one and are off, or have no partner, up to those that agree."""
    table = flow.npu.table
    found: dict[int, None] = {}
    waiting = [node]
    while waiting and len(found) < _MOST:
        for row in inputs_of(table, waiting.pop()).tolist():
            made = int(flow.producer[row])
            maker = int(table.node[made]) if made >= 0 else -1
            is_open = flow.error[row] != flow.error[row] and not flow.discrete[row]
            if maker < 0 or maker in found or not flow.npu.calls.is_api[maker]:
                continue
            if is_open or flow.error[row] > SUSPICIOUS * flow.floor[row]:
                found[maker] = None
                waiting.append(maker)
    return list(found)


def _is_other_name(flow: Flow, nodes: list[int]) -> bool:
    """Whether the partner of one is called otherwise: paired for want of anything better."""
    return any(
        _operator(flow.npu, one) != _operator(flow.bench, int(flow.partner[one]))
        for one in nodes
        if flow.partner[one] >= 0
    )


def _agrees(flow: Flow, node: int, expected: float, most: float) -> bool:
    """Whether a call puts out the same but for rounding, which its inputs may bring along."""
    table = flow.npu.table
    first, last = np.searchsorted(table.node, [node, node + 1]).tolist()
    rows = np.arange(first, last)[table.section[first:last] == Section.OUTPUT]
    tells = (flow.informative[rows] | (table.numel[rows] == 1)) & ~flow.discrete[rows]
    rows = rows[table.is_tensor[rows] & tells & ~np.isnan(flow.error[rows])]
    rounding = most * np.fmax(flow.floor[rows], expected)
    return bool(len(rows) and (flow.error[rows] <= rounding).all())


def _reference_has_more(flow: Flow, finding: Finding, nodes: list[int]) -> bool:
    """Whether the reference makes calls of its own in between, or what they begin with."""
    if finding.side or (flow.grouped.npu[nodes] >= 0).any():
        return True
    nodes = [node for node in nodes if flow.partner[node] >= 0]
    partners = flow.partner[nodes]
    if _is_other_name(flow, nodes):
        return True
    if not len(partners):
        return False
    around = np.arange(int(partners.min()), int(partners.max()) + 1)
    given = [inputs_of(flow.bench.table, one) for one in partners.tolist()]
    producer = flow.bench_producer[np.concatenate(given)]
    source = flow.bench.table.node[producer[producer >= 0]]
    alone = flow.bench_unmatched | (flow.grouped.bench >= 0)
    return bool((alone & flow.bench.calls.is_forward_call)[around].any() or alone[source].any())


def _operator(part: Part, node: int) -> str:
    return part.tree.parsed[node].stem.rpartition(".")[2].strip("_")
