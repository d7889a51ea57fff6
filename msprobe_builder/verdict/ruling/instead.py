"""What is named instead of the call that shows an error: the module around it, or what it is given.

A call that is given other bits from outside is judged by statistics, which are the same in any
order. Where next to everything else from outside is equal to the last bit, what it is given is the
first thing that differs. What was merely rounded has other extremes, and no order makes a multiple.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.part import Part
from msprobe_builder.verdict.differences.flow import Flow
from msprobe_builder.verdict.explanations.reordered import is_one_factor
from msprobe_builder.verdict.findings import SUSPICIOUS, Cause, Finding

Int = NDArray[np.int64]

_GIVEN = (Section.INPUT, Section.PARAMETERS)
_FEW = 0.5  # of what comes from outside; more differs where other devices have computed it


def named_instead(flow: Flow, finding: Finding, bits: Int | None) -> Finding:
    """The same finding, told of what is wrong; ``bits`` by row, 1 equal, 0 other, else -1."""
    if finding.cause is Cause.OUTPUT and bits is not None and not finding.side:
        return _given_other_bits(flow, finding, bits)
    return _called_instead(flow, finding)


def _given_other_bits(flow: Flow, finding: Finding, bits: Int) -> Finding:
    table, calls = flow.npu.table, flow.npu.calls
    node = finding.node
    if node != finding.at or calls.direction[node] != Direction.FORWARD or node in flow.arguments:
        return finding
    if is_one_factor(flow, finding):
        return finding
    first, last = np.searchsorted(table.node, [node, node + 1]).tolist()
    for row in range(first, last):
        if table.section[row] not in _GIVEN or bits[row] != 0:
            continue
        source, reference = _from_outside(flow.npu, flow.producer, row), int(flow.bench_of[row])
        is_from_outside = source >= 0 and reference >= 0
        if not is_from_outside or _from_outside(flow.bench, flow.bench_producer, reference) < 0:
            continue
        if flow.error[source] > SUSPICIOUS * flow.floor[source] or not _are_few(flow, bits):
            continue
        if flow.discrete[source] or _has_its_extremes(flow, source):
            where = int(table.node[source])
            return replace(finding, node=where, at=where, row=source, cause=Cause.EXTERNAL)
    return finding


def _from_outside(part: Part, producer: Int, row: int) -> int:
    """The row from which modules have handed on what no call has made, else -1."""
    while (made := int(producer[row])) >= 0:
        if part.table.section[made] not in _GIVEN:
            return -1
        row = made
    return row


def _has_its_extremes(flow: Flow, row: int) -> bool:
    """Whether the largest and the smallest are equal to the last digit, as in any order."""
    own = flow.npu.table.statistics[:2, row]
    return bool((own == flow.bench.table.statistics[:2, flow.bench_of[row]]).all())


def _are_few(flow: Flow, bits: Int) -> bool:
    """Whether most of what comes from outside is equal to the last bit."""
    table = flow.npu.table
    forward = flow.npu.calls.direction == Direction.FORWARD
    outside = (bits >= 0) & (flow.producer < 0) & np.isin(table.section, _GIVEN)
    outside &= forward[table.node]
    return bool(outside.any() and np.mean(bits[outside] == 0) < _FEW)


def _called_instead(flow: Flow, finding: Finding) -> Finding:
    """Where a module of another name stands for one, that it is called is what is wrong.

    Its weights are those of the other module, and so are the names of all it holds.
    """
    if finding.cause is not Cause.EXTERNAL or finding.side:
        return finding
    npu, bench = flow.npu.tree, flow.bench.tree
    node, found = finding.node, -1
    while node > 0 and flow.partner[node] >= 0:
        if npu.parsed[node].stem == bench.parsed[flow.partner[node]].stem:
            break
        found, node = node, int(npu.parent[node])
    if found < 0 or npu.parsed[found].kind is not Kind.MODULE:
        return finding
    if all(name.stem != npu.parsed[found].stem for name in bench.parsed):
        return finding  # the reference merely calls it otherwise
    return replace(finding, node=found, cause=Cause.WIRING)
