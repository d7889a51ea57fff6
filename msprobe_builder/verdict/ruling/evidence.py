"""What speaks against a suspect, in sentences."""

from __future__ import annotations

import numpy as np

from msprobe_builder.base.codes import STATISTICS
from msprobe_builder.base.multiple import multiple
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.dump.stack import Stacks, is_framework
from msprobe_builder.metrics.result import Graph
from msprobe_builder.operators import questions
from msprobe_builder.verdict.differences.arguments import Argument
from msprobe_builder.verdict.differences.distance import WORST, mask_values
from msprobe_builder.verdict.differences.flow import Flow
from msprobe_builder.verdict.explanations.incomparable import given_unknown, resized_inputs
from msprobe_builder.verdict.explanations.reordered import takes_samples
from msprobe_builder.verdict.explanations.shares_of_passes import shares_of_passes
from msprobe_builder.verdict.findings import Cause, Finding
from msprobe_builder.verdict.roles.unrecorded import unknown_inputs
from msprobe_builder.verdict.ruling.conclusion import told_of_scale

_SHOWN_ARGUMENTS = 3
_DIGITS, _ALL_DIGITS = 6, 17


def evidence(
    flow: Flow, finding: Finding, arguments: list[Argument], followers: int, texts: Texts
) -> str:
    """Everything that is known about one suspect."""
    told = [_story(flow, finding, texts), *_told_of_group(flow, finding)]
    if finding.cause is Cause.ORDER and takes_samples(flow, finding.row, texts):
        told.append("So would samples that were given in another order.")
    for argument in arguments[:_SHOWN_ARGUMENTS]:
        own, theirs = _short(argument.npu, argument.bench)
        told.append(f"Argument {argument.name} is {own}, in the reference {theirs}.")
    if passes := shares_of_passes(flow, finding):
        own = f"{passes[0]} micro-step{'' if passes[0] == 1 else 's'}"
        told.append(f"This run makes {own}, the reference {passes[1]}.")
    if finding.error > 0 and finding.cause not in (Cause.GRADIENT, Cause.RANDOM, Cause.RANK):
        is_by_sum = finding.row >= 0 and flow.by_sum[finding.row]
        told.append(_OF_SUMS if is_by_sum else _size(finding))
    if flow.loss_scale != 1.0 and flow.npu.calls.direction[finding.at] != Direction.FORWARD:
        told.append(told_of_scale(flow.loss_scale))  # the numbers are not those of the dumps
    if followers:
        told.append(
            f"{followers:,} later {'node inherits' if followers == 1 else 'nodes inherit'} it."
        )
    return " ".join(told)


def _story(flow: Flow, finding: Finding, texts: Texts) -> str:
    table, row = flow.npu.table, finding.row
    name = texts.values[table.name_id[row]] if row >= 0 else ""
    at = flow.npu.tree.names[finding.at]
    shown = _difference(flow, row)
    behind = f"Behind it {name} of {at} {shown}, although everything before it agrees."
    if finding.cause in (Cause.MISSING, Cause.EXTRA) and row < 0:
        lacks = "This run" if finding.side else "The reference"
        if (flow.bench if finding.side else flow.npu).calls.are(questions.casts)[finding.node]:
            return (
                f"It casts to a type coarser than any that {lacks[0].lower()}{lacks[1:]} uses. What"
                " that rounds averages out in the statistics behind it."
            )
        if (flow.bench if finding.side else flow.npu).calls.are(questions.turns)[finding.node]:
            return f"{lacks} does not make the call, whose effect no statistic tells."
        part = flow.bench if finding.side else flow.npu
        producer = flow.bench_producer if finding.side else flow.producer
        if np.any(part.table.node[producer[producer >= 0]] == finding.node):
            return (
                f"{lacks} does not make the call, and none in its place; what comes behind it"
                " agrees within rounding, or cannot be compared."
            )
        return f"{lacks} does not make the call; nothing behind it was recorded that would show it."
    if finding.cause is Cause.RANK:
        return "Ranks that should be alike are not."
    if finding.cause is Cause.NUMBER and table.section[row] == Section.INPUT:
        return f"The reference takes a norm of no gradient like {name}."
    if (
        finding.cause is Cause.NUMBER
        and flow.npu.calls.are(questions.one_of("all_reduce"))[finding.node]
    ):
        return f"{name} is not the sum of what all ranks put in."
    if finding.cause is Cause.NUMBER:
        return f"{name} is not what follows from the rank's own gradients."
    if finding.cause is Cause.RANDOM:
        return (
            f"{name} was drawn otherwise from inputs that agree: seed both runs alike. What is made"
            " of it cannot be compared."
        )
    if finding.cause is Cause.ORDER and finding.at == finding.node:
        return (
            f"The inputs agree as far as statistics tell, {name} {shown}: values of an input that"
            " stand at other places would explain it."
        )
    if finding.cause is Cause.ORDER:
        return (
            "Its output has the statistics of the reference, which are the same in any order."
            f" Behind it {name} of {at} {shown}: values that stand at other places would explain"
            " it."
        )
    if finding.cause is Cause.MISSING:
        return f"This run lacks the call. {behind}"
    if finding.cause is Cause.EXTRA:
        return f"The reference has no such call. {behind}"
    if finding.cause is Cause.BETWEEN:
        return f"Something inside it that was not recorded: {name} of {at} {shown}."
    if finding.cause is Cause.EXTERNAL:
        step = _micro_step_of_same(flow, row)
        if step >= 0:
            return (
                f"{name} {shown} and comes from outside: the data was given that the reference has"
                f" in micro-step {step}."
            )
        if flow.left_out.calls and not flow.discrete[row]:
            return f"{name} {shown}; it is other data, or made by calls that were not recorded."
        if flow.npu.calls.is_api[finding.at] and _is_behind_passes(flow, finding.at):
            return (
                f"{name} {shown}, and no recorded call has made it: it is what passes and ranks"
                " have added up, or what an optimizer keeps."
            )
        if flow.npu.calls.is_api[finding.at] and flow.npu.calls.is_module[_around(flow, finding)]:
            return (
                f"{name} {shown}, and no recorded call has made it: another buffer or constant"
                " was given."
            )
        return f"{name} {shown} and comes from outside: other data was given."
    if finding.cause is Cause.UNRECORDED:
        if flow.left_out.is_any:
            return _told_of_left_out(flow, row, f"{name} {shown}")
        return _told_of_unrecorded(flow, finding.at, f"{name} of {at} {shown}")
    if finding.cause is Cause.WEIGHT:
        return f"{name} {shown}: another weight was given."
    if finding.cause is Cause.WEIGHTS:
        return f"{name} {shown}, and most weights differ, too."
    if finding.cause is Cause.WIRING:
        return f"{name} {shown}, although what it came from agrees: another tensor is given."
    if finding.cause is Cause.GRADIENT and table.section[row] == Section.PARAMETERS:
        return f"{name} needs a gradient on one side only: it is frozen on the other."
    if finding.cause is Cause.GRADIENT:
        return f"{name} needs a gradient on one side only: a branch is cut off from training."
    if finding.cause is Cause.ARGUMENT and row < 0:
        return "The inputs agree and so does the output as far as its statistics tell."
    if finding.cause is Cause.ARGUMENT and finding.at != finding.node:
        return f"Its output looks the same, but behind it {name} of {at} {shown}."
    if finding.side == 0 and finding.node in flow.altered and finding.at != finding.node:
        return (
            "The inputs agree to the last bit, the output has the same statistics but other bits;"
            f" behind it {name} of {at} {shown}."
        )
    if finding.cause is Cause.OUTPUT and finding.at == flow.twin[finding.node] != finding.node:
        return behind
    unknown = given_unknown(flow, finding.node) if finding.side == 0 else []
    if unknown:
        told = " and ".join(texts.values[table.name_id[one]] for one in unknown[:_SHOWN_ARGUMENTS])
        if flow.is_merged:
            return f"Nobody can compare {told}, which merging could not tell; {name} {shown}."
        return f"Nobody can compare {told}, of which one side has no statistics; {name} {shown}."
    if resized := resized_inputs(flow, finding):
        given, row = texts.values[table.name_id[resized[0]]], flow.bench_of[resized[0]]
        if table.node[resized[0]] != finding.at:
            given = f"{given} of {flow.npu.tree.names[table.node[resized[0]]]}"
        own, theirs = int(table.numel[resized[0]]), int(flow.bench.table.numel[row])
        return f"The size of {given} is {own:,}, in the reference {theirs:,}; {name} {shown}."
    if whose := unknown_inputs(flow, finding.at) if finding.side == 0 else None:
        return f"What {whose} is given was not recorded, {name} {shown}."
    return f"The inputs agree, {name} {shown}."


def _is_behind_passes(flow: Flow, node: int) -> bool:
    """Whether a call runs outside of modules when all gradients have been given back."""
    calls, around = flow.npu.calls, int(flow.npu.tree.parent[node])
    last = calls.last_pass
    is_last = calls.direction[last] == Direction.BACKWARD and node > last
    return bool(is_last and calls.direction[around] == Direction.NONE)


def _around(flow: Flow, finding: Finding) -> int:
    return int(flow.npu.tree.parent[finding.at])


def _told_of_left_out(flow: Flow, row: int, shown: str) -> str:
    """Where calls are missing that ran before, nothing recorded is to blame."""
    table, calls = flow.npu.table, flow.npu.calls
    if table.section[row] == Section.PARAMETERS_GRAD:
        return f"{shown}; the calls on the way back that made it were not recorded."
    is_api = calls.is_api[table.node[row]] and calls.direction[table.node[row]] == Direction.FORWARD
    if is_api and table.position[row] > 0:
        return f"{shown}; it is another weight, or made by calls that were not recorded."
    return f"{shown}; the calls that made it were not recorded."


def _told_of_unrecorded(flow: Flow, node: int, shown: str) -> str:
    """Between which modules the calls run that a dump of modules alone does not show."""
    tree, calls = flow.npu.tree, flow.npu.calls
    before = np.flatnonzero(calls.is_module[:node] & (tree.subtree_end[:node] < node))
    before = before[tree.micro_step[before] == tree.micro_step[node]]
    outer = before[~calls.is_module[tree.parent[before]] | (tree.parent[before] <= 0)]
    last = tree.names[int(outer[-1])]
    back, twin = calls.direction == Direction.BACKWARD, int(calls.twin[node])
    if back[node] and twin >= 0 and back[before].any():
        last = tree.names[twin]  # what used its output gives the gradient
    where = f"in calls behind {last} and outside of all modules"
    if back[node] and not back[before].any():
        where = f"in the loss or its labels, behind {last}"
    return f"The fault is {where}, which a dump of modules alone does not show: {shown}."


_SAME = 1e-6  # of statistics of the same data; the order of summation may differ


def _micro_step_of_same(flow: Flow, row: int) -> int:
    """The only micro-step in which the same call of the reference is given the tensor, else -1."""
    other = int(flow.bench_of[row])
    if other < 0:
        return -1
    mine, table, tree = flow.npu.table, flow.bench.table, flow.bench.tree
    rows = np.flatnonzero(
        (table.name_id == table.name_id[other])
        & (table.section == table.section[other])
        & (table.shape_id == mine.shape_id[row])
        & (tree.micro_step[table.node] != tree.micro_step[table.node[other]])
    )
    if row in mine.md5:
        rows = rows[[table.md5.get(one) == mine.md5[row] for one in rows.tolist()]]
    else:
        own, theirs = mine.statistics[:, row, None], table.statistics[:, rows]
        same = np.isclose(own, theirs, _SAME, 0.0, equal_nan=True).all(axis=0)
        rows = rows[same & np.isfinite(own).any()]
    stem = tree.parsed[table.node[other]].stem
    steps = {
        int(tree.micro_step[node])
        for node in table.node[rows].tolist()
        if tree.parsed[node].stem == stem
    }
    return steps.pop() if len(steps) == 1 else -1


_SHOWN_CALLS = 6


def _told_of_group(flow: Flow, finding: Finding) -> list[str]:
    """Which calls are judged as one because only together they have a counterpart."""
    group = flow.grouped.of(finding.node) if finding.side == 0 else None
    if group is None or finding.cause is not Cause.OUTPUT:
        return []
    own, theirs = (
        _listed([name for name in (tree.names[node] for node in nodes) if name])
        for tree, nodes in ((flow.npu.tree, group.npu), (flow.bench.tree, group.bench))
    )
    if len(group.npu) == 1:
        several = sum(bool(flow.bench.tree.names[node]) for node in group.bench) > 1
        return [f"In the reference {theirs} {'together take' if several else 'takes'} its place."]
    return [f"It is judged as one with {own}, which do what {theirs} does in the reference."]


def _listed(names: list[str]) -> str:
    more = len(names) - _SHOWN_CALLS
    return ", ".join(names[:_SHOWN_CALLS]) + (f" and {more} more" if more > 0 else "")


def _difference(flow: Flow, row: int) -> str:
    """How a tensor differs from the reference, by the statistic that says most."""
    other = int(flow.bench_of[row]) if row >= 0 else -1
    if other < 0:
        return "differs"
    if flow.by_sum[row]:
        return "has another checksum"
    own, theirs = flow.npu.table.statistics[:, row], flow.bench.table.statistics[:, other]
    elements = flow.bench.table.numel[[other]]
    mask_value = mask_values(own[:, None], theirs[:, None], elements)[:, 0]
    if mask_value.any():
        shown = int(np.argmin(mask_value))
        if np.isfinite([own[shown], theirs[shown]]).all():
            return f"has {STATISTICS[shown]} {own[shown]:.6g} instead of {theirs[shown]:.6g}"
    finite, finite_there = np.isfinite(own[:2]).all(), np.isfinite(theirs[:2]).all()
    if finite_there and not finite:
        return "holds NaN or infinity, that of the reference does not"
    if finite and not finite_there:
        return "is finite, that of the reference holds NaN or infinity"
    with np.errstate(all="ignore"):
        ratio = own[3] / theirs[3]
        change = np.abs(own - theirs)
    if np.isfinite(ratio) and theirs[3] > 0 and abs(ratio - 1) > 1e-3:
        return f"has {ratio:.4g} times the norm of the reference"
    known = np.flatnonzero(np.isfinite(change))
    if not len(known) or not change[known].max() > 0:
        return "differs"
    worst = int(known[np.argmax(change[known] / np.fmax(np.abs(theirs[known]), 1e-30))])
    return f"has {STATISTICS[worst]} {own[worst]:.6g} instead of {theirs[worst]:.6g}"


_OF_SUMS = "By how much it is off checksums do not tell."


def _size(finding: Finding) -> str:
    if finding.error >= WORST or finding.expected <= 0:
        return "No rounding explains that."
    times = finding.error / finding.expected
    return f"That is {multiple(times)} times what rounding and the run's own noise explain."


def _short(own: str, theirs: str) -> tuple[str, str]:
    """Two numbers with as many digits as tell them apart, six at least; all else as it is."""
    try:
        for digits in range(_DIGITS, _ALL_DIGITS):
            left, right = _rounded(own, digits), _rounded(theirs, digits)
            if left != right:
                return left, right
    except ValueError:
        pass  # no numbers
    return own, theirs


def _rounded(number: str, digits: int) -> str:
    value = float(number)
    is_short = number.lstrip("-").isdecimal() or len(number) <= digits + len("-0.")
    return number if is_short else f"{value:.{digits}g}"


def told_of_overflow(graph: Graph, node: int) -> list[str]:
    """Whether the overflow check has found the origin of NaN and infinity here."""
    origins = np.flatnonzero(graph.overflow == graph.overflow.max(initial=0))
    if not graph.overflow.any() or node != int(origins[0]):
        return []
    return ["The overflow check finds the origin of NaN or infinity here."]


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
