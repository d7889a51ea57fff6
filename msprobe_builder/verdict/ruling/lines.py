"""Which of several equal calls is the one too many, as the lines tell that make them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from msprobe_builder.metrics.result import Graph, PairResult
from msprobe_builder.verdict.differences.flow import Flow
from msprobe_builder.verdict.findings import OF_ONE_SIDE, Finding
from msprobe_builder.verdict.ruling.evidence import source_line


def at_its_line(flow: Flow, finding: Finding, result: PairResult) -> Finding:
    """The same, with the call beside it that is made at a line of one side alone, if there is one.

    Calls that do the same with the same are paired by their turn. Where the other side makes the
    partner of one at the line of the call that was left over, that line is in both programs.
    """
    if finding.cause not in OF_ONE_SIDE or result.bench is None:
        return finding
    graphs = result.npu, result.bench
    graph, other_graph = graphs[:: 1 - 2 * finding.side]
    part, partner = (flow.bench, flow.bench_partner) if finding.side else (flow.npu, flow.partner)
    node, calls, tree = finding.node, part.calls, part.tree
    line = _line(graph, node)
    if line is None or not calls.is_api[node]:
        return finding
    beside = (calls.stem == calls.stem[node]) & (tree.parent == tree.parent[node])
    beside &= calls.is_api & (calls.direction == calls.direction[node]) & (partner >= 0)
    several = np.flatnonzero(beside)
    there = {one: _line(other_graph, int(partner[one])) for one in several.tolist()}
    for one in sorted(there, key=lambda other: abs(other - node)):
        if there[one] == line and _line(graph, one) not in there.values():
            return replace(finding, node=one)
    return finding


def _line(graph: Graph, node: int) -> str | None:
    return source_line(graph.dump.stacks, graph.tree.names[node], [])
