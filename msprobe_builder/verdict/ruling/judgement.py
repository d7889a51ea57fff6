"""The verdict on one step and rank: who is to blame, how sure that is, and who inherits."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import CallRole, Strength
from msprobe_builder.base.diagnostics import LAYOUT_CONFLICT
from msprobe_builder.dump.names import Direction, Kind, format_name
from msprobe_builder.dump.parameters import Section
from msprobe_builder.dump.task import Task
from msprobe_builder.facts.fact import Facts, fact, has_code
from msprobe_builder.graph.part import Part
from msprobe_builder.metrics.result import Graph, PairResult
from msprobe_builder.verdict.differences.flow import Flow, flow_of
from msprobe_builder.verdict.differences.loss_scale import without_loss_scale, without_scaling
from msprobe_builder.verdict.differences.operators import Family
from msprobe_builder.verdict.differences.undecided import undecided_calls
from msprobe_builder.verdict.explanations.disagreeing import (
    disagreeing,
    ranks_off,
    told_of_numbers,
    told_of_ranks,
)
from msprobe_builder.verdict.explanations.own_norms import OwnNorms, own_norms
from msprobe_builder.verdict.explanations.parts_of_updates import Updates, updates_of_parts
from msprobe_builder.verdict.explanations.reordered import bits_of, may_have_moved_before
from msprobe_builder.verdict.explanations.splitting import (
    done_otherwise,
    explained_flags,
    flags_of_layers,
    follows_from_shares,
    is_rest_of_sum,
    keeps_parameters_together,
    shares_taken,
    telling_flags,
)
from msprobe_builder.verdict.findings import OF_ONE_SIDE, Cause, Finding, Roles
from msprobe_builder.verdict.roles.onesided import called_more_often
from msprobe_builder.verdict.roles.passes import judge
from msprobe_builder.verdict.ruling.accusations import Accusation, accusations, is_merged
from msprobe_builder.verdict.ruling.conclusion import (
    CLEAN,
    FAULT,
    NO_NUMBERS,
    OTHER_BITS,
    OTHER_LAYOUT,
    UNDECIDED,
    conclude,
    told_of_flags,
    told_of_norms,
    told_of_products,
    told_of_scale,
)
from msprobe_builder.verdict.ruling.coverage import Coverage, coverage
from msprobe_builder.verdict.ruling.evidence import evidence, source_line, told_of_overflow
from msprobe_builder.verdict.ruling.instead import named_instead
from msprobe_builder.verdict.ruling.judged import Judgement, Suspect, edges_of, label
from msprobe_builder.verdict.ruling.lines import at_its_line

Float = NDArray[np.float64]
Int = NDArray[np.int64]

_MOST = 50  # suspects that are kept of one step and rank


def judge_by_rules(result: PairResult) -> Judgement | None:
    """The verdict on a comparison of one step and rank; None where nothing was compared."""
    if result.bench is None or result.matching is None or result.comparisons is None:
        return None
    if result.task is Task.STRUCTURE:
        return _without_numbers(result)
    result, scale = without_loss_scale(result)
    assert result.bench is not None
    assert result.matching is not None
    assert result.comparisons is not None
    npu = Part(result.npu.tree, result.npu.table)
    bench = Part(result.bench.tree, result.bench.table)
    flow = flow_of(
        npu,
        bench,
        result.matching.npu,
        result.matching.bench,
        result.comparisons,
        result.texts,
        result.baseline,
        result.groups,
        undecided=undecided_calls(result.matching, npu, bench),
        is_merged=is_merged(result),
        apart=disagreeing(
            result.npu.tree,
            result.npu.table,
            result.npu.provenance,
            result.bench.provenance,
            result.comparisons.pairs,
        ),
    )
    if scale is not None:
        flow = without_scaling(flow, scale)
    flags = flags_of_layers(flow)
    explained = explained_flags(flow, flags)
    others = {node: one for node, one in flow.arguments.items() if node not in flags}
    flow = replace(flow, arguments=others | telling_flags(flow, flags))
    roles = judge(flow)
    more_often = called_more_often(flow)
    bits = bits_of(result.comparisons, flow.npu.table)
    roles = replace(
        roles,
        findings=_as_whole(
            [at_its_line(flow, named_instead(flow, one, bits), result) for one in roles.findings],
            more_often,
        ),
    )
    followers = np.bincount(roles.source[roles.source >= 0], minlength=len(roles.findings))
    norms = own_norms(flow, result.npu.provenance, result.bench.provenance, result.texts)
    otherwise = done_otherwise(flow)
    found = accusations(flow, roles, result, followers, norms, otherwise, more_often, bits)
    shares = shares_taken(flow, result.npu.provenance)
    found = [
        one
        for one in found
        if not follows_from_shares(flow, one.finding, shares)
        and not is_rest_of_sum(flow, one.finding)
    ]
    parts = updates_of_parts(flow, result.npu.provenance, result.texts)
    if parts is not None:
        found = [one for one in found if not parts.is_of_turn(flow, one.finding)]
        found += [Accusation(-1, one, Strength.WEAK, 0, (-1.0, inf)) for one in parts.findings]
    found = _by_forward_calls(flow, found)
    is_elsewhere = bool(found) and any(one.code == LAYOUT_CONFLICT for one in result.diagnostics)
    if is_elsewhere:
        found = []  # where ranks are put together wrongly, nothing that differs accuses a call
    ordered = sorted(found, key=lambda one: one.order)[:_MOST]
    number = {one.number: place for place, one in enumerate(ordered) if one.number >= 0}
    suspect = np.array([number.get(one, -1) for one in range(len(roles.findings))] + [-1])
    suspects = [_suspect(flow, one, result, norms, bits, parts) for one in ordered]
    compared = int(np.count_nonzero(roles.role != CallRole.UNKNOWN))
    # Calls inside of a group were judged at its edges, those of a ring by what it puts out.
    judged = (flow.grouped.npu >= 0) | otherwise | keeps_parameters_together(flow)
    rest = Coverage(0) if suspects else coverage(flow, roles, judged)
    conclusion, said = conclude(
        [(one.strength, label(one, result), one.evidence, one.source) for one in suspects],
        compared,
        unjudged=rest.unjudged,
        choice=result.npu.tree.names[roles.choices[0]] if roles.choices else None,
    )
    said += rest.said
    is_bare = result.task is Task.STATISTICS and result.comparisons.apart is None
    if conclusion != FAULT and is_bare:
        suspects, said = _with_sketches(suspects, conclusion, said)
    names = result.npu.tree.names
    if explained and conclusion == CLEAN:
        said += (told_of_flags(names, explained),)
    if shares and conclusion == CLEAN:
        said += (fact("shares_taken", calls=len(shares), name=names[shares[0]]),)
    if scale is not None and (told := told_of_scale(scale.factor)) not in said:
        said += (told,)
    if flow.reduced and conclusion == CLEAN:
        said += (told_of_products(flow.reduced),)
    if norms.explained and conclusion == CLEAN:
        said += told_of_norms(names, norms.explained, norms.norms, is_total=norms.is_total)
    if parts is not None and conclusion != FAULT:
        conclusion = UNDECIDED if parts.uncompared else conclusion
        said += (parts.told_of_all(),)
    if is_elsewhere:
        conclusion, said = UNDECIDED, (OTHER_LAYOUT,)
    elif flow.is_untold and not suspects:
        conclusion, said = UNDECIDED, (OTHER_BITS,)
    by_sum = np.zeros(len(roles.role), dtype=bool)
    by_sum[flow.npu.table.node[flow.by_sum]] = True
    return Judgement(
        step=result.step,
        rank=result.rank,
        suspects=suspects,
        role=roles.role,
        given=np.where(by_sum, np.nan, roles.given),
        shown=np.where(by_sum, np.nan, roles.shown),
        expected=np.where(by_sum, np.nan, roles.expected),
        suspect=suspect[roles.source],
        reasons=_reasons(flow, roles),
        edges=edges_of(flow.npu.table, flow.producer, roles.source),
        conclusion=conclusion,
        said=said,
        compared=compared,
        noise=flow.noise,
        is_reduced=bool(flow.reduced),
    )


def _without_numbers(result: PairResult) -> Judgement:
    """What can be said of the structure alone: nothing of who is wrong."""
    size = len(result.npu.tree)
    unknown = np.full(size, np.nan)
    assert result.matching is not None
    alone = int(np.count_nonzero(result.matching.npu[1:] < 0))
    said: Facts = (fact("without_partner", nodes=alone),) if alone else ()
    return Judgement(
        step=result.step,
        rank=result.rank,
        suspects=[],
        role=np.full(size, int(CallRole.UNKNOWN)),
        given=unknown,
        shown=unknown,
        expected=unknown,
        suspect=np.full(size, -1),
        reasons={},
        edges=np.empty((2, 0), dtype=np.int64),
        conclusion=UNDECIDED,
        said=(NO_NUMBERS, *said),
        compared=0,
        noise=float("nan"),
    )


def _as_whole(findings: list[Finding], more_often: tuple[Int, Int]) -> list[Finding]:
    """The same, with a module that one side calls more often instead of the first call in it."""
    known = {(one.side, one.node) for one in findings}
    result = []
    for one in findings:
        whole = int(more_often[one.side][one.node])
        if one.cause in OF_ONE_SIDE and (one.side, whole) not in known:
            known.add((one.side, whole))
            one = replace(one, node=whole)
        result.append(one)
    return result


def _by_forward_calls(flow: Flow, found: list[Accusation]) -> list[Accusation]:
    """The same, with the forward call instead of its gradient's.

    Where one side alone makes it, or where it is a suspect itself, however weak.
    """
    accused = {(each.finding.side, each.finding.node) for each in found}
    result: dict[tuple[int, int], Accusation] = {}
    for each in sorted(found, key=lambda one: one.order):
        one = each.finding
        part, unmatched = (
            (flow.bench, flow.bench_unmatched) if one.side else (flow.npu, flow.unmatched)
        )
        twin = int(part.calls.twin[one.node])
        is_back = part.calls.direction[one.node] == Direction.BACKWARD
        is_told = one.cause in OF_ONE_SIDE and is_back and twin >= 0
        is_both = one.cause is Cause.OUTPUT and is_back and (one.side, twin) in accused
        if (is_told and unmatched[twin]) or is_both:
            each = replace(each, finding=replace(one, node=twin))
        result.setdefault((one.side, each.finding.node), each)
    return list(result.values())


def _suspect(
    flow: Flow,
    accusation: Accusation,
    result: PairResult,
    norms: OwnNorms,
    bits: Int | None,
    parts: Updates | None,
) -> Suspect:
    one = accusation.finding
    assert result.bench is not None
    graph: Graph = result.npu if one.side == 0 else result.bench
    name = graph.tree.parsed[one.node]
    arguments = flow.arguments.get(one.node, []) if one.side == 0 else []
    followers = max(0, accusation.followers - 1)
    is_by_sum = one.row >= 0 and bool(flow.by_sum[one.row])  # nobody knows by how much it is off
    is_back = name.direction is Direction.BACKWARD
    forward = [format_name(name._replace(direction=Direction.FORWARD))] if is_back else []
    return Suspect(
        side=one.side,
        node=one.node,
        strength=accusation.strength,
        cause=one.cause,
        error=0.0 if is_by_sum else one.error,
        expected=0.0 if is_by_sum else one.expected,
        followers=followers,
        evidence=(
            *(
                parts.told[one.side, one.node]
                if parts is not None and one.cause is Cause.PART
                else evidence(flow, one, arguments, followers, result.texts)
            ),
            *([fact("order.before")] if may_have_moved_before(flow, one, bits) else ()),
            *told_of_overflow(graph, one.node),
            *told_of_ranks(graph.table, graph.provenance, one.node, result.texts),
            *told_of_numbers(norms.of_ranks(one)),
        ),
        source=source_line(graph.dump.stacks, graph.tree.names[one.node], forward),
        ranks=()
        if one.side
        else ranks_off(flow, graph.provenance, result.bench.provenance, one.node, result.texts),
    )


def _with_sketches(
    suspects: list[Suspect], conclusion: str, said: Facts
) -> tuple[list[Suspect], Facts]:
    """With what would tell whether values stand at other places, once and only where it is open."""
    told = fact("order.sketches")
    is_open = [has_code(one.evidence, *_OF_ORDER) for one in suspects]
    if True not in is_open:
        return suspects, said
    if conclusion == CLEAN:
        return suspects, (*said, told)
    first = is_open.index(True)
    evidence = (*suspects[first].evidence, told)
    suspects = [
        *suspects[:first],
        replace(suspects[first], evidence=evidence),
        *suspects[first + 1 :],
    ]
    return suspects, (*said, told) if first == 0 else said


_OF_ORDER = ("order.of_input", "order.of_output", "order.before")


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
