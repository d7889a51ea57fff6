"""Calls outside of all modules that another part of the program makes than in the reference.

They are paired by their turn: an engine may scale the loss first, another the gradients.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from msprobe_builder.graph.tree import is_outside_of_modules
from msprobe_builder.metrics.result import Graph, PairResult
from msprobe_builder.verdict.differences.flow import Flow
from msprobe_builder.verdict.findings import Cause, Finding
from msprobe_builder.verdict.ruling.evidence import source_line

Files = tuple[str, str]  # of the run under debug, and of the reference

_SEVERAL = 4  # calls from which a habit can be told
_MOST = 0.5


def made_elsewhere(flow: Flow, findings: Sequence[Finding], result: PairResult) -> set[int]:
    """Places of findings whose call another file makes outside of all modules: another call.

    A file that has but another name, such as a training script for another device, is the same.
    """
    if result.bench is None:
        return set()
    npu, bench = result.npu, result.bench
    files: dict[int, Files] = {}
    for number, finding in enumerate(findings):
        if finding.cause is Cause.WIRING and not finding.side:
            pair = _files(flow, finding.node, npu, bench)
            if pair is not None and pair[0] != pair[1]:
                files[number] = pair
    if not files:
        return set()
    renamed = _renamed(flow, npu, bench)
    return {number for number, pair in files.items() if pair not in renamed}


def _renamed(flow: Flow, npu: Graph, bench: Graph) -> set[Files]:
    """Pairs of files of which most calls that either makes outside of modules are the other's."""
    calls = np.flatnonzero(flow.npu.calls.is_forward_call & (flow.partner >= 0)).tolist()
    found = (_files(flow, node, npu, bench) for node in calls)
    pairs = Counter(one for one in found if one is not None)
    debug, reference = Counter[str](), Counter[str]()
    for (file, other_file), count in pairs.items():
        debug[file] += count
        reference[other_file] += count
    return {
        (file, other_file)
        for (file, other_file), count in pairs.items()
        if count >= _SEVERAL
        and count > _MOST * debug[file]
        and count > _MOST * reference[other_file]
    }


def _files(flow: Flow, node: int, npu: Graph, bench: Graph) -> Files | None:
    """The files that make a call outside of modules and its partner, where both are known."""
    other = int(flow.partner[node])
    if other < 0 or not is_outside_of_modules(flow.npu.tree, node):
        return None
    debug, reference = _file(npu, node), _file(bench, other)
    return None if debug is None or reference is None else (debug, reference)


def _file(graph: Graph, node: int) -> str | None:
    line = source_line(graph.dump.stacks, graph.tree.names[node], [])
    return None if line is None else line.rpartition(":")[0]
