"""Calls outside of all modules that another part of the program makes than in the reference.

They are paired by their turn: an engine may scale the loss first, another the gradients.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.graph.tree import Tree
from msprobe_builder.metrics.result import Graph, PairResult
from msprobe_builder.verdict.evidence import source_line
from msprobe_builder.verdict.findings import Finding
from msprobe_builder.verdict.flow import Flow

_SEVERAL = 4  # calls from which a habit can be told
_MOST = 0.5


def is_made_elsewhere(flow: Flow, finding: Finding, result: PairResult) -> bool:
    """Whether another file makes the call outside of all modules, so that it is another call.

    A file that has but another name, such as a training script for another device, is the same.
    """
    other = int(flow.partner[finding.node])
    if finding.side or result.bench is None or other < 0:
        return False
    if not _is_outside(flow.npu.tree, finding.node):
        return False
    files = _file(result.npu, finding.node), _file(result.bench, other)
    if None in files or files[0] == files[1]:
        return False
    return not _is_renamed(flow, result.npu, result.bench, files)


def _is_renamed(flow: Flow, npu: Graph, bench: Graph, files: tuple[str | None, str | None]) -> bool:
    """Whether most calls that each of the files makes outside of modules are the other's."""
    calls = np.flatnonzero(flow.npu.calls.is_forward_call & (flow.partner >= 0))
    pairs = Counter(
        (_file(npu, node), _file(bench, int(flow.partner[node])))
        for node in calls.tolist()
        if _is_outside(npu.tree, node)
    )
    both = pairs[files]
    of_either = (
        sum(count for pair, count in pairs.items() if pair[side] == files[side]) for side in (0, 1)
    )
    return both >= _SEVERAL and all(both > _MOST * count for count in of_either)


def _is_outside(tree: Tree, node: int) -> bool:
    above = tree.parsed[int(tree.parent[node])]
    return above.kind is not Kind.MODULE or above.direction is Direction.NONE


def _file(graph: Graph, node: int) -> str | None:
    line = source_line(graph.dump.stacks, graph.tree.names[node], [])
    return None if line is None else line.rpartition(":")[0]
