"""What speaks against a suspect."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.dump.stack import Stacks, is_framework
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.facts.words import THE_REFERENCE, THIS_RUN
from msprobe_builder.metrics.result import Graph
from msprobe_builder.operators import questions
from msprobe_builder.verdict.differences.arguments import Argument
from msprobe_builder.verdict.differences.flow import Flow
from msprobe_builder.verdict.explanations.incomparable import given_unknown, resized_inputs
from msprobe_builder.verdict.explanations.reordered import takes_samples
from msprobe_builder.verdict.explanations.shares_of_passes import shares_of_passes
from msprobe_builder.verdict.findings import Cause, Finding
from msprobe_builder.verdict.roles.unrecorded import unknown_inputs
from msprobe_builder.verdict.ruling.conclusion import told_of_scale
from msprobe_builder.verdict.ruling.same_data import micro_step_of_same, told_of_group
from msprobe_builder.verdict.ruling.wording import differing, shortened, size_of

Float = NDArray[np.float64]

_SHOWN_ARGUMENTS = 3


def evidence(
    flow: Flow, finding: Finding, arguments: list[Argument], followers: int, texts: Texts
) -> list[Fact]:
    """Everything that is known about one suspect."""
    told = [*_story(flow, finding, texts), *_told_of_group(flow, finding)]
    if finding.cause is Cause.ORDER and takes_samples(flow, finding.row, texts):
        told.append(fact("order.of_samples"))
    for argument in arguments[:_SHOWN_ARGUMENTS]:
        debug, reference = shortened(argument.npu, argument.bench)
        told.append(fact("argument", name=argument.name, own=debug, theirs=reference))
    if passes := shares_of_passes(flow, finding):
        told.append(fact("micro_steps", own=passes[0], theirs=passes[1]))
    if finding.error > 0 and finding.cause not in (Cause.GRADIENT, Cause.RANDOM, Cause.RANK):
        is_by_sum = finding.row >= 0 and flow.by_sum[finding.row]
        told.append(
            fact("size.of_checksums") if is_by_sum else size_of(finding.error, finding.expected)
        )
    if flow.loss_scale != 1.0 and flow.npu.calls.direction[finding.at] != Direction.FORWARD:
        told.append(told_of_scale(flow.loss_scale))  # the numbers are not those of the dumps
    if followers:
        told.append(fact("followers", nodes=followers))
    return told


def _story(flow: Flow, finding: Finding, texts: Texts) -> list[Fact]:
    """What has happened at a suspect, by what kind of finding it is."""
    table, row, cause = flow.npu.table, finding.row, finding.cause
    name = texts.values[table.name_id[row]] if row >= 0 else ""
    at = flow.npu.tree.names[finding.at]
    how = _difference(flow, row)
    behind = fact("behind", name=name, node=at, how=how)
    if cause in (Cause.MISSING, Cause.EXTRA) and row < 0:
        return [_told_of_lacking(flow, finding)]
    if cause is Cause.RANK:
        return [fact("ranks_unlike")]
    if cause is Cause.NUMBER and table.section[row] == Section.INPUT:
        return [fact("number.norm_of_none", name=name)]
    if cause is Cause.NUMBER and flow.npu.calls.are(questions.one_of("all_reduce"))[finding.node]:
        return [fact("number.no_sum", name=name)]
    if cause is Cause.NUMBER:
        return [fact("number.not_of_gradients", name=name)]
    if cause is Cause.RANDOM:
        return [fact("drawn_otherwise", name=name)]
    if cause is Cause.ORDER and finding.at == finding.node:
        return [fact("order.of_input", name=name, how=how)]
    if cause is Cause.ORDER:
        return [fact("order.of_output", name=name, node=at, how=how)]
    if cause is Cause.MISSING:
        return [fact("call_missing"), behind]
    if cause is Cause.EXTRA:
        return [fact("call_extra"), behind]
    if cause is Cause.BETWEEN:
        return [fact("between", name=name, node=at, how=how)]
    if cause is Cause.EXTERNAL:
        return [_told_of_external(flow, finding, name, how)]
    if cause is Cause.UNRECORDED and flow.left_out.is_any:
        return [_told_of_left_out(flow, row, name, how)]
    if cause is Cause.UNRECORDED:
        return [_told_of_unrecorded(flow, finding.at, name, how)]
    if cause is Cause.WEIGHT:
        return [fact("weight", name=name, how=how)]
    if cause is Cause.WEIGHTS:
        return [fact("weights", name=name, how=how)]
    if cause is Cause.WIRING:
        return [fact("wiring", name=name, how=how)]
    if cause is Cause.GRADIENT and table.section[row] == Section.PARAMETERS:
        return [fact("gradient.frozen", name=name)]
    if cause is Cause.GRADIENT:
        return [fact("gradient.cut_off", name=name)]
    if cause is Cause.ARGUMENT and row < 0:
        return [fact("argument.output_agrees")]
    if cause is Cause.ARGUMENT and finding.at != finding.node:
        return [fact("argument.felt_behind", name=name, node=at, how=how)]
    if finding.side == 0 and finding.node in flow.altered and finding.at != finding.node:
        return [fact("other_bits_behind", name=name, node=at, how=how)]
    if cause is Cause.OUTPUT and finding.at == flow.twin[finding.node] != finding.node:
        return [behind]
    return [_told_of_output(flow, finding, texts, name, how)]


def _told_of_lacking(flow: Flow, finding: Finding) -> Fact:
    """Of a call that one side alone makes, behind which nothing differs."""
    side = THIS_RUN if finding.side else THE_REFERENCE
    part = flow.bench if finding.side else flow.npu
    producer = flow.bench_producer if finding.side else flow.producer
    if part.calls.are(questions.casts)[finding.node]:
        return fact("call_lacking.cast", side=side)
    if part.calls.are(questions.turns)[finding.node]:
        return fact("call_lacking.order", side=side)
    if np.any(part.table.node[producer[producer >= 0]] == finding.node):
        return fact("call_lacking.without_effect", side=side)
    return fact("call_lacking.unseen", side=side)


def _told_of_external(flow: Flow, finding: Finding, name: str, how: Fact) -> Fact:
    """Of a tensor that no recorded call has made."""
    step = micro_step_of_same(
        flow.npu.table, flow.bench, finding.row, int(flow.bench_of[finding.row])
    )
    if step >= 0:
        return fact("external.of_micro_step", name=name, how=how, micro_step=step)
    if flow.left_out.calls and not flow.discrete[finding.row]:
        return fact("external.unrecorded", name=name, how=how)
    if flow.npu.calls.is_api[finding.at] and _is_behind_passes(flow, finding.at):
        return fact("external.accumulated", name=name, how=how)
    if flow.npu.calls.is_api[finding.at] and flow.npu.calls.is_module[_around(flow, finding)]:
        return fact("external.buffer", name=name, how=how)
    return fact("external.other_data", name=name, how=how)


def _told_of_output(flow: Flow, finding: Finding, texts: Texts, name: str, how: Fact) -> Fact:
    """Of an output that its inputs do not explain, and what is known of these."""
    table = flow.npu.table
    unknown = given_unknown(flow, finding.node) if finding.side == 0 else []
    if unknown:
        inputs = [texts.values[table.name_id[one]] for one in unknown[:_SHOWN_ARGUMENTS]]
        if flow.is_merged:
            return fact("inputs_unknown.merged", inputs=inputs, name=name, how=how)
        return fact("inputs_unknown.one_side", inputs=inputs, name=name, how=how)
    if resized := resized_inputs(flow, finding):
        given: Fact | str = texts.values[table.name_id[resized[0]]]
        if table.node[resized[0]] != finding.at:
            node = flow.npu.tree.names[table.node[resized[0]]]
            given = fact("tensor_of", name=given, node=node)
        debug = int(table.numel[resized[0]])
        reference = int(flow.bench.table.numel[flow.bench_of[resized[0]]])
        return fact("input_resized", input=given, own=debug, theirs=reference, name=name, how=how)
    whose = unknown_inputs(flow, finding.at) if finding.side == 0 else None
    if whose == finding.at:
        return fact("unrecorded.given", name=name, how=how)
    if whose is not None:
        return fact("unrecorded.given_forward", name=name, how=how)
    return fact("inputs_agree", name=name, how=how)


def _is_behind_passes(flow: Flow, node: int) -> bool:
    """Whether a call runs outside of modules when all gradients have been given back."""
    calls, around = flow.npu.calls, int(flow.npu.tree.parent[node])
    last = calls.last_pass
    is_last = calls.direction[last] == Direction.BACKWARD and node > last
    return bool(is_last and calls.direction[around] == Direction.NONE)


def _around(flow: Flow, finding: Finding) -> int:
    return int(flow.npu.tree.parent[finding.at])


def _told_of_left_out(flow: Flow, row: int, name: str, how: Fact) -> Fact:
    """Where calls are missing that ran before, nothing recorded is to blame."""
    table, calls = flow.npu.table, flow.npu.calls
    if table.section[row] == Section.PARAMETERS_GRAD:
        return fact("unrecorded.backward_calls", name=name, how=how)
    is_api = calls.is_api[table.node[row]] and calls.direction[table.node[row]] == Direction.FORWARD
    if is_api and table.position[row] > 0:
        return fact("unrecorded.weight", name=name, how=how)
    return fact("unrecorded.calls", name=name, how=how)


def _told_of_unrecorded(flow: Flow, node: int, name: str, how: Fact) -> Fact:
    """Between which modules the calls run that a dump of modules alone does not show."""
    tree, calls = flow.npu.tree, flow.npu.calls
    before = np.flatnonzero(calls.is_module[:node] & (tree.subtree_end[:node] < node))
    before = before[tree.micro_step[before] == tree.micro_step[node]]
    outer = before[~calls.is_module[tree.parent[before]] | (tree.parent[before] <= 0)]
    last = tree.names[int(outer[-1])]
    back, twin = calls.direction == Direction.BACKWARD, int(calls.twin[node])
    if back[node] and twin >= 0 and back[before].any():
        last = tree.names[twin]  # what used its output gives the gradient
    if back[node] and not back[before].any():
        return fact("unrecorded.loss", last=last, name=name, node=tree.names[node], how=how)
    return fact("unrecorded.behind", last=last, name=name, node=tree.names[node], how=how)


def _told_of_group(flow: Flow, finding: Finding) -> list[Fact]:
    """Which calls are judged as one because only together they have a counterpart."""
    group = flow.grouped.of(finding.node) if finding.side == 0 else None
    if group is None or finding.cause is not Cause.OUTPUT:
        return []
    return told_of_group(group, flow.npu.tree.names, flow.bench.tree.names)


def _difference(flow: Flow, row: int) -> Fact:
    """How a tensor differs from the reference."""
    other = int(flow.bench_of[row]) if row >= 0 else -1
    if other >= 0 and flow.by_sum[row]:
        return fact("differs.checksum")
    if other < 0:
        return fact("differs.unknown")
    where, relative = flow.said.get(row, ()), float(flow.relative[row])
    return differing(flow.npu.table, flow.bench.table, row, other, relative, where)


def told_of_overflow(graph: Graph, node: int) -> list[Fact]:
    """Whether the overflow check has found the origin of NaN and infinity here."""
    if not graph.beginnings or node != graph.beginnings[0].node:
        return []
    return [fact("overflow_begins"), *graph.beginnings[0].why]


def source_line(stacks: Stacks, name: str, names: list[str]) -> str | None:
    """File and line of the user's code that made the call, the innermost outside of frameworks.

    ``names`` are other names to look under when the call itself has no stack.
    """
    for one in (name, *names):
        number = stacks.of_name.get(one)
        if number is None:
            continue
        frames = [frame for frame in stacks.stacks[number] if frame.file]
        for frame in frames:
            if not is_framework(str(frame.file)):
                return f"{str(frame.file).rpartition('/')[2]}:{frame.line}"
        if frames:
            return f"{str(frames[0].file).rpartition('/')[2]}:{frames[0].line}"
    return None
