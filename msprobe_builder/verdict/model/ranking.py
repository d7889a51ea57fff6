"""Which of several clues comes first, and where each of them is told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Section
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.agreement import (
    most_gradients_agree,
    no_gradient_tells,
    results_agree,
)
from msprobe_builder.verdict.model.blamed import first_alone, laid_out_otherwise, looked_behind
from msprobe_builder.verdict.model.clue import DOUBT, NUMBERS, ONE_SIDED, Clue, Evidence
from msprobe_builder.verdict.model.exchanged import Exchanges
from msprobe_builder.verdict.model.lacking import (
    calls_alone,
    left_out_inside,
    trains_otherwise,
)
from msprobe_builder.verdict.model.outputs import shown_behind
from msprobe_builder.verdict.model.places import placed
from msprobe_builder.verdict.model.unmatched import made_outside, maker_guessed, written_by
from msprobe_builder.verdict.model.weighing import Weighing

Int = NDArray[np.int64]

_DWARFS = 30.0  # times more surprising, which no doubt before it explains
_LAST = 3  # outputs that a forward pass ends with, on which what calls are given shows


def ranked(evidence: Evidence, found: list[Clue], weighing: Weighing) -> list[Clue]:
    """Each node once, the first of the run first."""
    runs = evidence.runs
    place = placed(runs)
    first = once(sorted(found, key=place))
    kinds = runs.npu.calls.operations, runs.bench.calls.operations
    looked = [_explained(evidence, one, kinds) for one in shown_behind(evidence, first)]
    # A call of one side alone is told where its effect shows: what stands between comes before it.
    stands = [
        place(one if (one.cause in ONE_SIDED and one.row >= 0) or found.side != one.side else found)
        for one, found in zip(first, looked, strict=True)
    ]
    order = sorted(range(len(looked)), key=stands.__getitem__)
    several = once([looked[one] for one in order])
    # A loss is one number, and agrees by chance.
    if results_agree(evidence, _LAST) and most_gradients_agree(evidence):
        paired = Exchanges(runs).of_paired(several, backward=no_gradient_tells(evidence))
        several = [
            one for one in several if not (one in paired and weighing.explains("exchanged", one))
        ]
    credible = _credible_first(several)
    is_silent = runs.is_mixed or (not evidence.is_merged and trains_otherwise(runs))
    return once([*credible, *(calls_alone(runs) if is_silent else [])])


def _credible_first(found: list[Clue]) -> list[Clue]:
    """The same, behind them those that a later one dwarfs.

    What numbers alone doubt makes nothing else so much more surprising: errors that a call
    is given are part of what is expected of it.
    """
    dwarfed: list[bool] = []
    largest = 0.0
    for one in reversed(found):
        doubts = one.cause in NUMBERS and one.score < DOUBT
        dwarfed.append(doubts and largest > _DWARFS * one.score)
        largest = max(largest, one.score)
    dwarfed.reverse()
    marked = list(zip(found, dwarfed, strict=True))
    return [one for late in (False, True) for one, is_late in marked if is_late is late]


def _explained(evidence: Evidence, clue: Clue, kinds: tuple[Int, Int]) -> Clue:
    if _is_of_left_out(evidence, clue):
        at = int(evidence.runs.npu.table.node[clue.row])
        return replace(clue, side=0, node=at, cause=Cause.UNRECORDED)
    if clue.cause in ONE_SIDED and clue.row >= 0:
        clue = _of_its_module(evidence, clue)
    calls, parent = evidence.runs.npu.calls, evidence.runs.npu.tree.parent
    if not calls.is_api.any():
        around = int(parent[clue.node])
        if clue.cause in (Cause.EXTERNAL, Cause.BETWEEN) and around > 0 and calls.is_module[around]:
            # Nothing but modules was recorded: what happens between them is the module's around.
            return replace(clue, node=around, cause=Cause.BETWEEN)
        is_given = clue.cause in (*NUMBERS, Cause.WIRING) and clue.side == 0
        if is_given and made_outside(evidence.runs, clue.row):
            return replace(clue, cause=Cause.UNRECORDED)
        return clue
    if clue.cause in ONE_SIDED and clue.row >= 0:
        return first_alone(evidence.runs, clue, kinds[clue.side])
    if clue.cause is Cause.OUTPUT and evidence.runs.npu.calls.is_api[clue.node]:
        return looked_behind(evidence, clue)
    several = evidence.arguments.get(clue.node, [])
    if clue.cause is Cause.ARGUMENT and several and all(one.is_count for one in several):
        clue = laid_out_otherwise(evidence, clue)
    if clue.cause is Cause.EXTERNAL:  # of ranks that are put together many make calls of their own
        return clue if evidence.is_merged else maker_guessed(evidence.runs, clue)
    if clue.cause is Cause.BETWEEN:
        return written_by(evidence.runs, clue)
    return left_out_inside(evidence.runs, clue)


def _of_its_module(evidence: Evidence, clue: Clue) -> Clue:
    """The module around a call, where the other side records no calls but modules alone."""
    runs = evidence.runs
    part, partner, *_ = runs.sides[clue.side]
    if int(part.calls.kind[clue.node]) not in evidence.left_out.kinds[1 - clue.side]:
        return clue
    around = int(part.tree.parent[clue.node])
    while around > 0 and partner[around] < 0:
        around = int(part.tree.parent[around])
    node = int(partner[around]) if clue.side else around
    return replace(clue, side=0, node=node, cause=Cause.OUTPUT) if node > 0 else clue


def _is_of_left_out(evidence: Evidence, clue: Clue) -> bool:
    """Whether calls that a filter has left out have made what a clue shows."""
    if clue.row < 0:
        return False
    section, left_out = int(evidence.runs.npu.table.section[clue.row]), evidence.left_out
    if section == Section.PARAMETERS_GRAD:
        return left_out.gradients
    if section != Section.INPUT or evidence.runs.discrete[clue.row]:
        return False
    if clue.cause in ONE_SIDED:
        return left_out.skips[1 - clue.side]
    if clue.cause is Cause.EXTERNAL and not made_outside(evidence.runs, clue.row):
        return False  # which may be data
    skips = any(left_out.skips) or left_out.modules
    return clue.cause in (Cause.EXTERNAL, Cause.BETWEEN) and skips


def once(found: list[Clue]) -> list[Clue]:
    """The first of each node."""
    result: dict[tuple[int, int], Clue] = {}
    for one in found:
        result.setdefault((one.side, one.node), one)
    return list(result.values())
