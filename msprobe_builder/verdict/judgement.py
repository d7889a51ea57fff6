"""The verdict on one step and rank: who is to blame, how sure that is, and who inherits."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import CallRole, Strength
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction, Kind, format_name, module_path
from msprobe_builder.dump.parameters import Section
from msprobe_builder.dump.task import Task
from msprobe_builder.metrics.result import Graph, PairResult
from msprobe_builder.verdict.conclusion import conclude
from msprobe_builder.verdict.evidence import evidence, source_line
from msprobe_builder.verdict.findings import SUSPICIOUS, Cause, Finding, Roles
from msprobe_builder.verdict.flow import Flow, flow_of, part_of
from msprobe_builder.verdict.gradients import cut_off
from msprobe_builder.verdict.operators import Family
from msprobe_builder.verdict.passes import judge

Float = NDArray[np.float64]
Int = NDArray[np.int64]

# Below this an accusation is weak unless something else than a number differs, too.
CERTAIN = 24.0
# What kernels of another precision, such as TF32, may do when the run's own noise is not known.
_UNKNOWN_NOISE = 0.02
_MOST = 50  # suspects that are kept of one step and rank


@dataclass(frozen=True)
class Suspect:
    """A call that may be to blame; ``side`` 1 when only the reference makes it."""

    side: int
    node: int
    strength: Strength
    cause: Cause
    error: float  # of what it put out, as a fraction of its size
    expected: float  # what rounding, noise and its inputs explain of that
    heirs: int  # nodes that inherit from it
    evidence: str
    source: str | None  # file and line that made the call


@dataclass(frozen=True)
class Judgement:
    """What is known of one step and rank.

    Columns by npu node: ``role``, ``given`` and ``shown`` (errors of what it was given and put
    out, NaN unknown), ``expected``, ``suspect`` (number of the suspect it inherits from, -1).
    ``edges`` of shape (2, n) are nodes that hand an error on and nodes that get it.
    """

    step: int
    rank: int
    suspects: list[Suspect]
    role: Int
    given: Float
    shown: Float
    expected: Float
    suspect: Int
    reasons: dict[int, str]
    edges: Int
    conclusion: str  # fault, clean, undecided
    sentence: str
    compared: int  # calls whose inputs and outputs could be judged
    noise: float


def judge_pair(result: PairResult) -> Judgement | None:
    """The verdict on a comparison of one step and rank; None where nothing was compared."""
    if result.bench is None or result.matching is None or result.comparisons is None:
        return None
    if result.task is Task.STRUCTURE:
        return None
    flow = flow_of(
        part_of(result.npu.tree, result.npu.table),
        part_of(result.bench.tree, result.bench.table),
        result.matching.npu,
        result.matching.bench,
        result.comparisons,
        result.texts,
        result.baseline,
        is_merged=_is_merged(result),
    )
    roles = judge(flow)
    roles = replace(roles, findings=[_called_instead(flow, one) for one in roles.findings])
    heirs = np.bincount(roles.source[roles.source >= 0], minlength=len(roles.findings))
    found = _accusations(flow, roles, result, heirs)
    ordered = sorted(found, key=lambda one: one.order)[:_MOST]
    number = {one.number: place for place, one in enumerate(ordered) if one.number >= 0}
    suspect = np.array([number.get(one, -1) for one in range(len(roles.findings))] + [-1])
    suspects = [_suspect(flow, one, result) for one in ordered]
    compared = int(np.count_nonzero(roles.role != CallRole.UNKNOWN))
    conclusion, sentence = conclude(
        [(one.strength, _label(one, result), one.evidence, one.source) for one in suspects],
        compared,
        unjudged=len(roles.role) - compared,
        choice=result.npu.tree.names[roles.choices[0]] if roles.choices else None,
    )
    return Judgement(
        step=result.step,
        rank=result.rank,
        suspects=suspects,
        role=roles.role,
        given=roles.given,
        shown=roles.shown,
        expected=roles.expected,
        suspect=suspect[roles.source],
        reasons=_reasons(flow, roles),
        edges=_edges(flow, roles),
        conclusion=conclusion,
        sentence=sentence,
        compared=compared,
        noise=flow.noise,
    )


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


@dataclass(frozen=True)
class _Accusation:
    """A finding with how sure it is, and its place among the others."""

    number: int  # of the finding, -1 for one that is none of the pass
    finding: Finding
    strength: Strength
    heirs: int
    order: tuple[float, ...]


def _accusations(flow: Flow, roles: Roles, result: PairResult, heirs: Int) -> list[_Accusation]:
    """Findings that no other explains, and what differs without showing in any number."""
    assert result.comparisons is not None
    drifted = _has_drifted(flow, roles)
    same_calls = _in_common(flow) >= _SAME_CALLS
    is_merged = _is_merged(result)
    strength = [
        Strength.WEAK
        if drifted and _direction(flow, one.at) is Direction.BACKWARD
        else _strength(
            flow,
            one,
            int(roles.felt[number]),
            int(roles.outside[number]),
            result.texts,
            is_merged=is_merged,
            same_calls=same_calls,
        )
        for number, one in enumerate(roles.findings)
    ]
    found = []
    for number, one in enumerate(roles.findings):
        root = one.root
        while root >= 0 and strength[root] is Strength.WEAK and strength[number] > strength[root]:
            root = roles.findings[root].root
        if root < 0:
            sure = strength[number]
            order = (-float(sure), float(number) if sure is Strength.STRONG else -_times(one))
            found.append(_Accusation(number, one, sure, int(heirs[number]), order))
    known = {(one.finding.side, one.finding.node) for one in found}
    flags = result.comparisons.requires_grad_equal
    rows = result.comparisons.pairs.npu[flags == 0]
    for place, row in [] if _recomputes(result) else cut_off(flow, rows):
        if (place.side, place.node) not in known:
            node = int(flow.npu.table.node[row])
            one = Finding(place.side, place.node, row, node, 0.0, 0.0, Cause.GRADIENT, -1)
            at = _position(roles, node)
            found.append(_Accusation(-1, one, Strength.STRONG, 0, (-float(Strength.STRONG), at)))
            known.add((place.side, place.node))
    for node in flow.arguments:
        if (0, node) not in known and roles.source[node] < 0:
            one = Finding(0, node, -1, node, 0.0, 0.0, Cause.ARGUMENT, -1)
            found.append(_Accusation(-1, one, Strength.WEAK, 0, (-1.0, -CERTAIN, float(node))))
    return found


def _is_merged(result: PairResult) -> bool:
    return any(graph and graph.provenance for graph in (result.npu, result.bench))


_DRIFT = 2.0


def _has_drifted(flow: Flow, roles: Roles) -> bool:
    """Whether the forward pass differs all over by more than rounding, though nobody is found.

    Other samples do that whose statistics are much alike; gradients then differ still more.
    """
    if any(_direction(flow, one.at) is Direction.FORWARD for one in roles.findings):
        return False
    ratio = roles.shown / roles.floor
    known = ratio[(flow.npu.calls.direction == Direction.FORWARD) & np.isfinite(ratio)]
    return len(known) > 0 and float(np.median(known)) > _DRIFT


def _direction(flow: Flow, node: int) -> Direction:
    return flow.npu.tree.parsed[node].direction


def _recomputes(result: PairResult) -> bool:
    """Whether a side computes again what it needs for gradients: the first time without history."""
    sides = [result.npu] if result.bench is None else [result.npu, result.bench]
    return any(bool(graph.tree.is_recompute.any()) for graph in sides)


def _position(roles: Roles, node: int) -> float:
    """Where something found at a node stands among the findings of the pass."""
    return float(sum(one.at < node for one in roles.findings)) - 0.5


def _times(finding: Finding) -> float:
    return finding.error / finding.expected if finding.expected > 0 else 0.0


def _strength(
    flow: Flow,
    finding: Finding,
    felt: int,
    outside: int,
    texts: Texts,
    *,
    is_merged: bool,
    same_calls: bool,
) -> Strength:
    """Strong only when no noise explains it, and when what came behind has felt it."""
    differs = finding.cause in (Cause.ARGUMENT, Cause.EXTRA, Cause.MISSING)
    differs |= finding.side == 0 and finding.node in flow.arguments
    if _times(finding) < (SUSPICIOUS if differs else CERTAIN):
        return Strength.WEAK
    # What a merge puts together from the statistics of ranks is no recorded number either.
    is_vague = is_merged or flow.noise != flow.noise
    if is_vague and finding.error < _UNKNOWN_NOISE and (is_merged or not differs):
        return Strength.WEAK
    if flow.family[finding.at] in (Family.RANDOM, Family.UNINITIALISED) and not differs:
        return Strength.WEAK
    # Nothing comes behind the gradient of a parameter; anything else is felt by somebody.
    is_last = flow.npu.table.section[finding.row] == Section.PARAMETERS_GRAD
    if not felt and not is_last:
        return Strength.WEAK
    # Where two implementations divide the work differently, only what leaves the module counts,
    # and calls of one side alone are no news where so many are.
    divided = finding.cause in (Cause.EXTRA, Cause.MISSING, Cause.WIRING, Cause.BETWEEN)
    if divided and not outside and flow.npu.tree.parent[finding.at] > 0:
        return Strength.WEAK
    if divided and finding.cause is not Cause.WIRING and not same_calls:
        return Strength.WEAK
    # They change while the module runs; when they were read differs between frameworks.
    if finding.cause is Cause.EXTERNAL and finding.row >= 0:
        table = (flow.npu if finding.side == 0 else flow.bench).table
        if texts.values[int(table.name_id[finding.row])].endswith(_RUNNING):
            return Strength.WEAK
    return Strength.STRONG


# Share of calls with a partner from which on two runs are of one implementation.
_SAME_CALLS = 0.8
_RUNNING = ("running_mean", "running_var", "moving_mean", "moving_variance", "num_batches_tracked")


def _in_common(flow: Flow) -> float:
    """The smaller share of forward calls that have a partner, of both sides."""
    npu, bench = flow.npu.calls.is_forward_call, flow.bench.calls.is_forward_call
    both = np.count_nonzero(npu & (flow.partner >= 0))
    return int(both) / max(int(np.count_nonzero(npu)), int(np.count_nonzero(bench)), 1)


def _suspect(flow: Flow, accusation: _Accusation, result: PairResult) -> Suspect:
    one = accusation.finding
    assert result.bench is not None
    graph: Graph = result.npu if one.side == 0 else result.bench
    name = graph.tree.parsed[one.node]
    arguments = flow.arguments.get(one.node, []) if one.side == 0 else []
    heirs = max(0, accusation.heirs - 1)
    forward = [
        other
        for other in (_named(graph, one.node, Direction.FORWARD),)
        if name.direction is Direction.BACKWARD and other is not None
    ]
    return Suspect(
        side=one.side,
        node=one.node,
        strength=accusation.strength,
        cause=one.cause,
        error=one.error,
        expected=one.expected,
        heirs=heirs,
        evidence=evidence(flow, one, arguments, heirs, result.texts),
        source=source_line(graph.dump.stacks, graph.tree.names[one.node], forward),
    )


def _label(suspect: Suspect, result: PairResult) -> str:
    """How a suspect is called: the module it is called in, and its own name."""
    graph = result.npu if suspect.side == 0 else result.bench
    assert graph is not None
    name = graph.tree.names[suspect.node]
    parent = graph.tree.parsed[graph.tree.parent[suspect.node]]
    if parent.kind is Kind.MODULE and parent.direction is not Direction.NONE:
        return f"{module_path(parent.stem)} → {name}"
    return name


def _named(graph: Graph, node: int, direction: Direction) -> str | None:
    return format_name(graph.tree.parsed[node]._replace(direction=direction))


def _reasons(flow: Flow, roles: Roles) -> dict[int, str]:
    """Why the role of a node is unknown."""
    tree, table = flow.npu.tree, flow.npu.table
    recorded = np.zeros(len(tree), dtype=bool)
    recorded[table.node[np.isin(table.section, (Section.OUTPUT, Section.PARAMETERS_GRAD))]] = True
    result = {}
    chosen = set(roles.choices)
    for node in np.flatnonzero(roles.role == CallRole.UNKNOWN).tolist():
        if tree.parsed[node].kind is Kind.COLLECTION or node == 0:
            continue
        if flow.partner[node] < 0:
            result[node] = "unmatched"
        elif flow.family[node] == Family.UNINITIALISED:
            result[node] = "uninitialised"
        elif flow.family[node] == Family.RANDOM:
            result[node] = "random"
        elif node in chosen:
            result[node] = "choice"
        else:
            result[node] = "no_statistics" if recorded[node] else "no_output"
    return result


def _edges(flow: Flow, roles: Roles) -> Int:
    """Which node hands what is wrong on to which."""
    table = flow.npu.table
    rows = np.flatnonzero(flow.producer >= 0)
    source, target = table.node[flow.producer[rows]], table.node[rows]
    both = (roles.source[source] >= 0) & (roles.source[target] >= 0) & (source != target)
    return np.unique(np.stack([source[both], target[both]]), axis=1)
