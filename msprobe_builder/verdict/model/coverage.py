"""What was not judged of both runs, and which of them ends before the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import CallRole
from msprobe_builder.dump.names import Direction
from msprobe_builder.facts.fact import Facts, fact
from msprobe_builder.graph.part import Part
from msprobe_builder.graph.tree import Tree
from msprobe_builder.verdict.model.clue import Evidence
from msprobe_builder.verdict.model.runs import Runs
from msprobe_builder.verdict.ruling.conclusion import LEFT_OUT, told_of_more

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


@dataclass(frozen=True)
class Coverage:
    """``unjudged`` nodes of both runs, and what is said of those of one run alone."""

    unjudged: int
    said: Facts = ()


def coverage(evidence: Evidence, role: Int, known: Bool) -> Coverage:
    """What is open when nobody is accused; ``known`` are npu nodes that were judged otherwise.

    Calls inside of a module that is given and puts out what it should have done what they should.
    """
    unknown = (role == CallRole.UNKNOWN) & ~known
    if evidence.is_merged:  # the calls between its ranks are nobody's counterpart
        return Coverage(int(np.count_nonzero(unknown)))
    if evidence.left_out.is_filtered or _lacks_backward_alone(evidence):
        recorded = np.zeros(len(unknown), dtype=bool)
        recorded[evidence.runs.npu.table.node[evidence.runs.npu.table.is_tensor]] = True
        open_calls = unknown & recorded & (evidence.runs.partner >= 0)
        return Coverage(int(np.count_nonzero(open_calls)), (LEFT_OUT,))
    sound = (role == CallRole.CLEAN) & evidence.runs.npu.calls.is_module
    reference = (evidence.runs.bench_partner >= 0) & sound[evidence.runs.bench_partner]
    enclosed = _inside(evidence.runs.npu.tree, sound), _inside(evidence.runs.bench.tree, reference)
    lacking = _alone(evidence, 1) & ~enclosed[1]
    unjudged = np.count_nonzero(unknown & ~enclosed[0]) + np.count_nonzero(lacking)
    more = [
        (int(np.count_nonzero(_alone(evidence, side) & ~enclosed[side])), side, int(again[0]))
        for side in (0, 1)
        if len(again := np.setdiff1d(_again(evidence, side), np.flatnonzero(enclosed[side])))
    ]
    if not more:
        return Coverage(int(unjudged))
    nodes, side, first = max(more)
    name = _side(evidence, side)[0].tree.names[first]
    told = told_of_more(side, name, nodes, is_behind=_is_behind(evidence, side, first))
    return Coverage(int(unjudged), (told,))


def _lacks_backward_alone(evidence: Evidence) -> bool:
    """Whether one side has no backward pass though it has all of the way ahead that the other has.

    Else it may have ended in there.
    """
    if not any(evidence.left_out.ways):
        return False
    ahead = [
        int(np.count_nonzero(part.calls.is_module & (part.calls.direction == Direction.FORWARD)))
        for part in (evidence.runs.npu, evidence.runs.bench)
    ]
    return ahead[0] >= ahead[1] if evidence.left_out.ways[0] else ahead[1] >= ahead[0]


def _side(evidence: Evidence, side: int) -> tuple[Part, Bool]:
    """A run, and which of its nodes have a counterpart."""
    one = evidence.runs.sides[side]
    return one.part, one.partner >= 0


def _alone(evidence: Evidence, side: int) -> Bool:
    """Calls without a counterpart."""
    part, matched = _side(evidence, side)
    return np.asarray(~matched & (part.calls.direction != Direction.NONE))


def _again(evidence: Evidence, side: int) -> Int:
    """The modules that a run calls again, or comes back to, and the other does not."""
    part, matched = _side(evidence, side)
    calls = part.calls
    again = _alone(evidence, side) & calls.is_module & np.isin(calls.stem, calls.stem[matched])
    return np.flatnonzero(again)


def _is_behind(evidence: Evidence, side: int, node: int) -> bool:
    """Whether nothing of a run that stands behind a node has a counterpart."""
    part, matched = _side(evidence, side)
    return not (matched & (part.calls.direction != Direction.NONE))[node:].any()


def _inside(tree: Tree, chosen: Bool) -> Bool:
    """Nodes below chosen ones."""
    change = np.zeros(len(tree) + 1, dtype=np.int64)
    nodes = np.flatnonzero(chosen)
    np.add.at(change, nodes + 1, 1)
    np.add.at(change, tree.subtree_end[nodes] + 1, -1)
    return np.asarray(np.cumsum(change[:-1]) > 0)


def told_of_alone(runs: Runs) -> Facts:
    """Calls of one side alone: how many, and the first."""
    debug, reference = (
        np.flatnonzero(part.calls.is_forward_call & part.calls.is_api & (partner < 0))
        for part, partner, *_ in runs.sides
    )
    if not (len(debug) or len(reference)):
        return ()
    names = runs.npu.tree.names if len(debug) else runs.bench.tree.names
    first = names[(debug if len(debug) else reference)[0]]
    return (fact("not_judged.alone", own=len(debug), theirs=len(reference), name=first),)
