"""What is said of a clue: facts, of which a catalogue makes sentences."""

from __future__ import annotations

import numpy as np

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.clue import Clue, Evidence
from msprobe_builder.verdict.ruling.wording import differing, shortened, size_of

_SHOWN_ARGUMENTS = 3


def evidence_of(evidence: Evidence, clue: Clue) -> list[Fact]:
    """Everything that is known about one clue."""
    arguments = evidence.arguments.get(clue.node, []) if clue.side == 0 else []
    speak = clue.cause is Cause.ARGUMENT and clue.row < 0 and bool(arguments)  # for themselves
    told = [] if speak else [_story(evidence, clue)]
    for one in arguments[:_SHOWN_ARGUMENTS]:
        debug, reference = shortened(one.npu, one.bench)
        told.append(fact("argument", name=one.name, own=debug, theirs=reference))
    if clue.meets_again:
        told.append(fact("meets_again"))
    if clue.error > 0 and clue.expected > 0:
        told.append(size_of(clue.error, clue.expected))
    return told


def _story(evidence: Evidence, clue: Clue) -> Fact:
    """What has happened, by the kind of clue."""
    runs, row, cause = evidence.runs, clue.row, clue.cause
    table = runs.npu.table
    name = runs.texts.values[table.name_id[row]] if row >= 0 else ""
    node = runs.npu.tree.names[table.node[row]] if row >= 0 else ""
    how = differing(runs.npu.table, runs.bench.table, row, int(runs.other[row]) if row >= 0 else -1)
    if cause is Cause.MISSING:
        return fact("call_missing.behind", name=name, node=node, how=how)
    if cause is Cause.EXTRA:
        return fact("call_extra.behind", name=name, node=node, how=how)
    if cause is Cause.ORDER:
        return fact("order.of_output", name=name, node=node, how=how)
    if cause is Cause.RANDOM:
        return fact("drawn_otherwise", name=name)
    if cause is Cause.WIRING:
        return fact("wiring", name=name, how=how)
    if cause is Cause.WEIGHT:
        return fact("weight", name=name, how=how)
    if cause is Cause.BETWEEN:
        return fact("between", name=name, node=node, how=how)
    if cause is Cause.EXTERNAL:
        return _external(evidence, clue, name, how)
    is_back = runs.npu.calls.direction[clue.node] == Direction.BACKWARD and clue.side == 0
    if cause is Cause.GRADIENT and row >= 0 and not is_back:
        return fact("gradient.cut_off", name=name)
    if cause is Cause.GRADIENT:
        return fact("gradient.lacking")
    if cause is Cause.ARGUMENT and row < 0:
        return fact("argument.tensor_lacking")
    return fact("inputs_agree", name=name, how=how)


def _external(evidence: Evidence, clue: Clue, name: str, how: Fact) -> Fact:
    runs = evidence.runs
    inside = runs.npu.calls.is_module[runs.npu.tree.parent[clue.node]]
    if runs.npu.calls.direction[clue.node] == Direction.BACKWARD:
        return fact("external.unrecorded", name=name, how=how)
    if (
        runs.npu.calls.is_api[clue.node]
        and inside
        and not np.isin(runs.npu.table.section[clue.row], Section.PARAMETERS)
    ):
        return fact("external.buffer", name=name, how=how)
    return fact("external.other_data", name=name, how=how)
