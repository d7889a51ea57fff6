"""What is said of a clue: facts, of which a catalogue makes sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.facts.words import THE_REFERENCE, THIS_RUN
from msprobe_builder.graph.part import inputs_of
from msprobe_builder.graph.tree import is_outside_of_modules
from msprobe_builder.operators import questions
from msprobe_builder.verdict.differences.arguments import Argument
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.clue import Clue, Evidence
from msprobe_builder.verdict.model.passes import loss_divided
from msprobe_builder.verdict.ruling.same_data import micro_step_of_same, told_of_group
from msprobe_builder.verdict.ruling.wording import differing, shortened, size_of

_SHOWN_ARGUMENTS = 3
_RIVALS = {
    "passes": fact("rival.passes"),
    "unknown": fact("rival.unknown"),
    "chosen": fact("rival.chosen"),
    "sum_of_uses": fact("rival.sum_of_uses"),
    "places": fact("rival.places"),
    "merged": fact("rival.merged"),
}


def evidence_of(evidence: Evidence, clue: Clue) -> list[Fact]:
    """Everything that is known about one clue."""
    arguments = evidence.arguments.get(clue.node, []) if clue.side == 0 else []
    speak = clue.cause is Cause.ARGUMENT and clue.row < 0 and bool(arguments)  # for themselves
    told = [] if speak or clue.cause is Cause.PART else _story(evidence, clue)
    told += [*clue.told, *_told_of_group(evidence, clue)]
    told += told_of_arguments(arguments)
    if passes := loss_divided(evidence, clue):
        told.append(fact("micro_steps", own=passes[0], theirs=passes[1]))
    if clue.meets_again:
        told.append(fact("meets_again"))
    elif clue.rival:
        told.append(_RIVALS[clue.rival])
    if clue.row >= 0 and evidence.runs.by_sum[clue.row] and clue.error > 0:
        told.append(fact("size.of_checksums"))
    elif clue.error > 0 and clue.expected > 0 and clue.cause is not Cause.RANK:
        told.append(size_of(clue.error, clue.expected))
    return told


def told_of_arguments(arguments: Sequence[Argument]) -> list[Fact]:
    """The first arguments that differ, as they are on both sides."""
    told = []
    for one in arguments[:_SHOWN_ARGUMENTS]:
        debug, reference = shortened(one.npu, one.bench)
        told.append(fact("argument", name=one.name, own=debug, theirs=reference))
    return told


def _story(evidence: Evidence, clue: Clue) -> list[Fact]:
    """What has happened, by the kind of clue."""
    runs, row, cause = evidence.runs, clue.row, clue.cause
    table = runs.npu.table
    name = runs.texts.values[table.name_id[row]] if row >= 0 else ""
    node = runs.npu.tree.names[table.node[row]] if row >= 0 else ""
    how = _difference(evidence, row)
    is_weight = row >= 0 and table.section[row] == Section.PARAMETERS
    is_back = clue.side == 0 and runs.npu.calls.direction[clue.node] == Direction.BACKWARD
    if cause in (Cause.MISSING, Cause.EXTRA) and row < 0:
        return [_told_of_lacking(evidence, clue)]
    if cause is Cause.MISSING:
        return [fact("call_missing.behind", name=name, node=node, how=how)]
    if cause is Cause.EXTRA:
        return [fact("call_extra.behind", name=name, node=node, how=how)]
    if cause is Cause.NUMBER:
        return [_told_of_number(evidence, clue, name)]
    if cause is Cause.ORDER:
        return [fact("order.of_output", name=name, node=node, how=how)]
    if cause is Cause.GRADIENT and is_weight:
        return [fact("gradient.frozen", name=name)]
    if cause is Cause.GRADIENT and row >= 0 and not is_back:
        return [fact("gradient.cut_off", name=name)]
    if cause is Cause.GRADIENT:
        return [fact("gradient.lacking")]
    if cause is Cause.ARGUMENT and row < 0:
        return [fact("argument.tensor_lacking")]
    simple = {
        Cause.RANK: fact("ranks_unlike"),
        Cause.RANDOM: fact("drawn_otherwise", name=name),
        Cause.WIRING: fact("wiring", name=name, how=how),
        Cause.WEIGHT: fact("weight", name=_weight(evidence, row, name), how=how),
        Cause.WEIGHTS: fact("weights", name=_weight(evidence, row, name), how=how),
        Cause.BETWEEN: fact("between", name=name, node=node, how=how),
    }
    if cause in simple:
        return [simple[cause]]
    if cause is Cause.UNRECORDED:
        return [_told_of_unrecorded(evidence, clue, name, how)]
    if cause is Cause.EXTERNAL:
        return [_told_of_external(evidence, clue, name, how)]
    return [_told_of_output(evidence, clue, name, how)]


def _weight(evidence: Evidence, row: int, name: str) -> str:
    """A weight that a call is given itself, with the name that the recorder knew it by."""
    origins = evidence.runs.npu.table.origins
    known = int(origins.name[row]) if origins is not None and row >= 0 else -1
    return name if origins is None or known < 0 else f"{name} ({origins.names[known]})"


def _told_of_number(evidence: Evidence, clue: Clue, name: str) -> Fact:
    """Of a number that a rank makes of what it has."""
    runs = evidence.runs
    if runs.npu.table.section[clue.row] == Section.INPUT:
        return fact("number.norm_of_none", name=name)
    if runs.npu.calls.are(questions.one_of("all_reduce"))[clue.node]:
        return fact("number.no_sum", name=name)
    return fact("number.not_of_gradients", name=name)


def _told_of_lacking(evidence: Evidence, clue: Clue) -> Fact:
    """Of a call that one side alone makes, behind which nothing differs."""
    runs = evidence.runs
    part, _, _, maker, _ = runs.sides[clue.side]
    side = THIS_RUN if clue.side else THE_REFERENCE
    if part.calls.are(questions.casts)[clue.node]:
        return fact("call_lacking.cast", side=side)
    if part.calls.are(questions.turns)[clue.node]:
        return fact("call_lacking.order", side=side)
    if np.any(part.table.node[maker[maker >= 0]] == clue.node):
        return fact("call_lacking.without_effect", side=side)
    return fact("call_lacking.unseen", side=side)


def _told_of_unrecorded(evidence: Evidence, clue: Clue, name: str, how: Fact) -> Fact:
    """Of what calls have made that a filter left out, or that stand outside of all modules."""
    if evidence.runs.npu.table.section[clue.row] == Section.PARAMETERS_GRAD:
        return fact("unrecorded.backward_calls", name=name, how=how)
    if evidence.left_out.calls:
        return fact("unrecorded.calls", name=name, how=how)
    tree, calls = evidence.runs.npu.tree, evidence.runs.npu.calls
    before = calls.is_module & (tree.parent == tree.parent[clue.node])
    before[clue.node :] = False
    way, node = calls.direction[clue.node], tree.names[clue.node]
    same = np.flatnonzero(before & (calls.direction == way))
    if len(same):
        last = tree.names[int(same[-1])]
        return fact("unrecorded.behind", last=last, name=name, node=node, how=how)
    ahead = np.flatnonzero(before)
    if way == Direction.BACKWARD and len(ahead):
        last = tree.names[int(ahead[-1])]
        return fact("unrecorded.loss", last=last, name=name, node=node, how=how)
    return fact("unrecorded.calls", name=name, how=how)


def _told_of_external(evidence: Evidence, clue: Clue, name: str, how: Fact) -> Fact:
    """Of a tensor that no recorded call has made."""
    runs, calls, row = evidence.runs, evidence.runs.npu.calls, clue.row
    is_outside = is_outside_of_modules(runs.npu.tree, clue.node)
    step = micro_step_of_same(runs.npu.table, runs.bench, row, int(runs.other[row]))
    if step >= 0:
        return fact("external.of_micro_step", name=name, how=how, micro_step=step)
    if calls.direction[clue.node] == Direction.BACKWARD:
        return fact("external.unrecorded", name=name, how=how)
    is_behind = calls.direction[calls.last_pass] == Direction.BACKWARD
    is_behind &= clue.node > calls.last_pass and is_outside
    if calls.is_api[clue.node] and is_behind:
        return fact("external.accumulated", name=name, how=how)
    is_weight = runs.npu.table.section[row] == Section.PARAMETERS
    if calls.is_api[clue.node] and not (is_outside or is_weight):
        return fact("external.buffer", name=name, how=how)
    return fact("external.other_data", name=name, how=how)


def _told_of_output(evidence: Evidence, clue: Clue, name: str, how: Fact) -> Fact:
    """Of an output that its inputs do not explain, and what is known of these."""
    runs, table = evidence.runs, evidence.runs.npu.table
    if clue.side:
        return fact("inputs_agree", name=name, how=how)
    given = inputs_of(table, clue.node)
    there = evidence.paired[given]
    nobody_knows = np.isnan(evidence.expected.latent[given]) & ~runs.discrete[given]
    unknown, paired = given[(there >= 0) & nobody_knows], given[there >= 0]
    sizes = table.numel[paired], runs.bench.table.numel[evidence.paired[paired]]
    is_other = (sizes[0] != sizes[1]) & ~np.isnan(sizes[0]) & ~np.isnan(sizes[1])
    if is_other.any():
        first = int(np.argmax(is_other))
        both = {"own": int(sizes[0][first]), "theirs": int(sizes[1][first])}
        text = runs.texts.values[table.name_id[paired[first]]]
        return fact("input_resized", input=text, name=name, how=how, **both)
    if evidence.left_out.inputs:
        return fact("unrecorded.given", name=name, how=how)
    if len(unknown):
        inputs = [runs.texts.values[table.name_id[one]] for one in unknown[:_SHOWN_ARGUMENTS]]
        code = "inputs_unknown.merged" if evidence.is_merged else "inputs_unknown.one_side"
        return fact(code, inputs=inputs, name=name, how=how)
    return fact("inputs_agree", name=name, how=how)


def _told_of_group(evidence: Evidence, clue: Clue) -> list[Fact]:
    """Which calls are judged as one because only together they have a counterpart."""
    runs = evidence.runs
    if clue.side or clue.cause is not Cause.OUTPUT or evidence.groups is None:
        return []
    known = {number: evidence.groups.groups[number] for number in set(evidence.groups.owner)}
    group = next((one for one in known.values() if clue.node in one.npu), None)
    if group is None:
        return []
    return told_of_group(group, runs.npu.tree.names, runs.bench.tree.names)


def _difference(evidence: Evidence, row: int) -> Fact:
    """How a tensor differs from the reference, and where."""
    runs, seen = evidence.runs, evidence.seen
    other = int(runs.other[row]) if row >= 0 else -1
    if other >= 0 and runs.by_sum[row]:
        return fact("differs.checksum")
    relative = float(np.nan_to_num(seen.exact[row])) if row >= 0 else 0.0
    table, reference = runs.npu.table, runs.bench.table
    return differing(table, reference, row, other, relative, evidence.where.get(row, ()))
