"""Where two programs part and meet again: another formula for the same is no fault.

Calls in between are off, as they compute something else; what comes of them agrees. Where both
sides make the same calls in between, a fault may be hidden, by a gate that is closed as yet.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.calls import operator_of
from msprobe_builder.graph.part import Part, inputs_of
from msprobe_builder.verdict.differences.flow import Flow
from msprobe_builder.verdict.findings import SUSPICIOUS, Finding

Int = NDArray[np.int64]

_MOST = 48  # calls in between


def meets_again(flow: Flow, finding: Finding) -> bool:
    """Whether all that comes of a finding agrees behind calls that each side has of its own."""
    calls, node = flow.npu.calls, finding.at
    if finding.row < 0 or not calls.is_api.any():
        return False
    if finding.node in flow.arguments and not finding.side:
        return False
    between, met = _until_it_agrees(flow, node, finding.expected)
    if not met:
        return False
    own = (flow.lone | (flow.grouped.npu >= 0))[between].any()
    return bool((own or not finding.side) and _theirs(flow, finding, [*between, *met]))


def _until_it_agrees(flow: Flow, start: int, expected: float) -> tuple[list[int], list[int]]:
    """Calls that are off, and those behind them that agree; none where one has no end."""
    between, met, waiting = [start], [], [*_behind(flow, start)]
    known = {start, *waiting}
    while waiting:
        node = waiting.pop()
        behind = _behind(flow, node)
        if _agrees(flow, node, expected):
            met.append(node)
        elif len(between) >= _MOST or not behind:
            return between, []
        else:
            between.append(node)
            waiting += [one for one in behind if one not in known]
            known.update(behind)
    return between, met


def _behind(flow: Flow, node: int) -> list[int]:
    """The calls of the same pass that are given what a call puts out, and read it."""
    calls = flow.npu.calls
    return [
        one
        for one in set(flow.consumers.of(node))
        if calls.kind[one] == Kind.API and calls.direction[one] == calls.direction[node]
        if not operator_of(flow.npu.tree.parsed[one].stem).endswith("_like")
    ]


def _agrees(flow: Flow, node: int, expected: float) -> bool:
    """Whether a call puts out the same but for rounding, which its inputs may bring along."""
    table = flow.npu.table
    first, last = np.searchsorted(table.node, [node, node + 1]).tolist()
    rows = np.arange(first, last)[table.section[first:last] == Section.OUTPUT]
    tells = (flow.informative[rows] | (table.numel[rows] == 1)) & ~flow.discrete[rows]
    rows = rows[table.is_tensor[rows] & tells & ~np.isnan(flow.error[rows])]
    rounding = SUSPICIOUS * np.fmax(flow.floor[rows], expected)
    return bool(len(rows) and (flow.error[rows] <= rounding).all())


def _theirs(flow: Flow, finding: Finding, nodes: list[int]) -> bool:
    """Whether the reference makes calls of its own in between, or what they begin with."""
    if finding.side or (flow.grouped.npu[nodes] >= 0).any():
        return True
    nodes = [node for node in nodes if flow.partner[node] >= 0]
    partners = flow.partner[nodes]
    if any(_operator(flow.npu, one) != _operator(flow.bench, flow.partner[one]) for one in nodes):
        return True  # what is called otherwise was paired for want of anything better
    if not len(partners):
        return False
    around = np.arange(int(partners.min()), int(partners.max()) + 1)
    given = [inputs_of(flow.bench.table, one) for one in partners.tolist()]
    producer = flow.bench_producer[np.concatenate(given)]
    source = flow.bench.table.node[producer[producer >= 0]]
    own = (flow.bench_lone | (flow.grouped.bench >= 0)) & flow.bench.calls.is_forward_call
    return bool(own[around].any() or own[source].any())


def _operator(part: Part, node: int) -> str:
    return operator_of(part.tree.parsed[node].stem)
