"""All clues of a comparison, and those of them that somebody feels."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.floating import SINGLE
from msprobe_builder.graph.part import inputs_of, tensors_of
from msprobe_builder.operators.operator import Kind
from msprobe_builder.verdict.findings import WEIGHTS, Cause
from msprobe_builder.verdict.model.agreement import (
    DEEP,
    FELT,
    gradients_agree,
    nobody_keeps,
    nothing_comes_of_it,
    results_agree,
)
from msprobe_builder.verdict.model.clue import (
    BELIEVED,
    DOUBT,
    LOOKED_AT,
    NUMBERS,
    ONE_SIDED,
    THRESHOLD,
    Clue,
    Evidence,
)
from msprobe_builder.verdict.model.converging import Leaks, Ways, is_of_other_sizes
from msprobe_builder.verdict.model.edges import of_edges
from msprobe_builder.verdict.model.exchanged import Exchanges
from msprobe_builder.verdict.model.lacking import (
    cut_off,
    of_lacking,
    undone,
)
from msprobe_builder.verdict.model.outputs import (
    of_draws,
    of_outputs,
)
from msprobe_builder.verdict.model.outside import is_state
from msprobe_builder.verdict.model.places import Spare, placed
from msprobe_builder.verdict.model.runs import Runs
from msprobe_builder.verdict.model.weighing import Weighing

Float = NDArray[np.float64]

_VANISHED = 50.0  # times smaller an error is behind the module in which it was
_AS_EXPECTED = 2.0  # times
_GIVEN = (*NUMBERS, Cause.MISSING, Cause.EXTRA, Cause.WIRING)
_MOST_OF_IT = 0.3  # of its size, ten times what half precision leaves open
_USED = 20.0  # times less than a tensor itself is what it is used as off
_OF_PROGRAM = (Cause.ARGUMENT, Cause.GRADIENT, *WEIGHTS)


def clues(evidence: Evidence, weighing: Weighing, spare: Spare | None = None) -> list[Clue]:
    """All clues, in no order, but for those that are kept as ``spare``."""
    # What is cut off from training keeps its value; of another value it is another tensor.
    needing = evidence.requires_grad
    needing = needing[~(evidence.seen.size[needing] > _MOST_OF_IT)]
    found = [
        *of_outputs(evidence, spare),
        *of_draws(evidence),
        *of_edges(evidence, spare),
        *of_lacking(evidence.runs),
        *cut_off(evidence.runs, needing),
        *([] if evidence.is_merged else undone(evidence.runs)),
    ]
    if spare is not None:
        spare.without(weighing.without)
    return weighing.wanted(_weights_once(evidence.runs, found))


def _weights_once(runs: Runs, found: list[Clue]) -> list[Clue]:
    """The same, of weights those of a module's first call: they are what the others are given.

    Of a weight that calls are given themselves, the first call.
    """
    first: dict[tuple[int, int], int] = {}
    for one in found:
        if one.cause is Cause.WEIGHT:
            held = _holder(runs, one.row)
            first[held] = min(first.get(held, one.node), one.node)
    return [
        one
        for one in found
        if one.cause is not Cause.WEIGHT or first[_holder(runs, one.row)] == one.node
    ]


def _holder(runs: Runs, row: int) -> tuple[int, int]:
    """The module that a weight stands at, by its stem; else the weight itself, by its name."""
    table = runs.npu.table
    if int(table.section[row]) == Section.PARAMETERS or table.origins is None:
        return int(runs.npu.calls.stem[table.node[row]]), -1
    return -1, int(table.origins.name[row])


def felt(
    evidence: Evidence,
    found: list[Clue],
    weighing: Weighing,
    least: float = THRESHOLD,
    spare: Spare | None = None,
) -> tuple[list[Clue], list[Clue]]:
    """Those above the threshold that somebody feels, and those that nobody does.

    The others are two formulas, or a recorder's habit. What is off inside of a module, and vanishes
    in what that puts out, has explained itself. ``least`` is THRESHOLD or LEAST.
    """
    runs, seen = evidence.runs, evidence.seen
    found = [one for one in found if one.score > least]
    table, calls, parent = runs.npu.table, runs.npu.calls, runs.npu.tree.parent
    unit = runs.coarse if runs.is_mixed else runs.fine
    out = np.flatnonzero(runs.rows(Section.OUTPUT) & runs.open[table.node] & ~runs.discrete)
    worst = np.full(len(runs.npu.tree), -1.0)
    times = np.where(np.isnan(seen.size[out]), np.inf, seen.size[out] / unit[out])
    np.maximum.at(worst, table.node[out], times)
    _add_gradients(runs, seen.size / unit, worst)
    result, vanished = list[Clue](), list[Clue]()
    dead = results_agree(evidence, 1) and nobody_keeps(evidence)
    no_gradient_is_off = gradients_agree(evidence)
    habits = _habits(evidence, found, least, spare or Spare())
    ways, leaks, exchanges = Ways(evidence), Leaks(evidence), Exchanges(runs)
    looked_at = Counter[Cause]()
    for one in sorted(found, key=placed(runs)):
        looked_at[one.cause] += 1
        if looked_at[one.cause] > LOOKED_AT:
            continue  # more is not told of any comparison
        is_same = one.cause in (*_GIVEN, Cause.ARGUMENT) and _comes_to_the_same(evidence, one)
        explained = (
            ("unkept", dead and one.cause is Cause.OUTPUT),
            ("habit", one in habits),
            ("mispaired", exchanges.is_of_unpaired(one)),
            ("formula", is_same and ways.agree(one.row)),
        )
        if any(holds and weighing.explains(kind, one) for kind, holds in explained):
            vanished.append(one)
            continue
        is_gross = one.row >= 0 and one.error > min(_MOST_OF_IT, _VANISHED * FELT * unit[one.row])
        is_given = one.cause in _GIVEN or is_of_other_sizes(runs, one)
        if is_given and is_gross and ways.meet_again(one):
            one = replace(one, meets_again=weighing.explains("meets_again", one))
        is_without = one.cause is Cause.GRADIENT and no_gradient_is_off
        if is_without and weighing.explains("no_gradient", one):
            continue
        at = _at(runs, one)
        is_inside = at >= 0 and int(calls.direction[at]) != Direction.NONE
        around = int(parent[at]) if is_inside else -1
        comes_out = one.cause not in _OF_PROGRAM and is_inside and worst[around] >= 0
        if comes_out and worst[around] <= max(FELT, ways.usual(one) / SINGLE):
            units = one.error / unit[one.row]
            vanishes = calls.is_module[around] and units > _VANISHED * max(worst[around], 1.0)
            stays = is_state(runs, evidence.does, one.row) or _stays_in_weight(runs, one)
            vanishes = vanishes and not stays and not leaks.leaves(at, around)
            if vanishes and weighing.explains("inside", one):
                if not runs.is_mixed or one.score < BELIEVED:
                    vanished.append(one)
                    continue
                one = replace(one, meets_again=True)  # half precision hides what comes of it
        result.append(one)
    end = calls.last_pass if nothing_comes_of_it(evidence) else -1

    def is_over(clue: Clue) -> bool:
        at = _at(runs, clue)
        return 0 <= at <= end and not (
            leaks.stays(at, end) or is_state(runs, evidence.does, clue.row)
        )

    marked = [
        replace(one, meets_again=True)
        if one.cause in _GIVEN and is_over(one) and weighing.explains("meets_again", one)
        else one
        for one in result
    ]
    marked = _as_the_others(runs, marked)
    other = [one for one in marked if _is_other_formula(one)]
    clear = [one for one in marked if one.score > THRESHOLD]
    if not runs.is_mixed and end >= 0 and all(_is_other_formula(one) for one in clear):
        # No number of the whole step shows it.
        over = [one for one in other if weighing.explains("formula", one)]
        return [one for one in marked if one not in over], vanished + over
    return marked, vanished


def _is_other_formula(clue: Clue) -> bool:
    return clue.meets_again and clue.cause in (*ONE_SIDED, Cause.WIRING)


def _as_the_others(runs: Runs, found: list[Clue]) -> list[Clue]:
    """The same: what does not meet again in one module does so by chance in another."""
    kinds = [one.calls.operations for one in (runs.npu, runs.bench)]
    keys = [(one.side, one.cause, int(kinds[one.side][one.node])) for one in found]
    parts = {
        key
        for key, one in zip(keys, found, strict=True)
        if not one.meets_again and one.cause in ONE_SIDED and one.score > DOUBT
    }
    return [
        replace(one, meets_again=False) if key in parts else one
        for key, one in zip(keys, found, strict=True)
    ]


def _at(runs: Runs, clue: Clue) -> int:
    return int(runs.npu.table.node[clue.row]) if clue.row >= 0 else -1


def _add_gradients(runs: Runs, times: Float, worst: Float) -> None:
    """Count what a backward pass leaves in parameters among what its modules put out."""
    rows = np.flatnonzero(runs.rows(Section.PARAMETERS_GRAD) & (times > FELT))
    for row in rows.tolist():
        node = int(runs.npu.tree.parent[runs.npu.table.node[row]])
        while node > 0 and worst[node] < times[row]:
            worst[node] = times[row]
            node = int(runs.npu.tree.parent[node])


def _stays_in_weight(runs: Runs, clue: Clue) -> bool:
    """Whether it is the gradient of a parameter, which leaves no module but goes on from there.

    What is recorded of the parameter itself may be of another pass of the step.
    """
    table, at = runs.npu.table, _at(runs, clue)
    if not runs.backward[at] or int(table.section[clue.row]) != Section.OUTPUT:
        return False
    given = inputs_of(table, int(runs.npu.calls.twin[at]))
    which = int(table.position[clue.row])  # among the tensors that the call was given
    made = int(runs.maker[given[which]]) if which < len(given) else -1
    return made >= 0 and bool(table.section[made] == Section.PARAMETERS)


def _comes_to_the_same(evidence: Evidence, clue: Clue) -> bool:
    """Whether all that is given something else puts out the same: another formula."""
    runs, table = evidence.runs, evidence.runs.npu.table
    if clue.cause is Cause.ARGUMENT and clue.row >= 0:  # that makes up for what is given
        rows = inputs_of(table, int(table.node[clue.row]))
        if np.isnan(evidence.seen.size[rows]).any():
            return clue.error <= _AS_EXPECTED * clue.expected  # an operand is another one as well
        return _VANISHED * clue.error < clue.expected and _puts_out_the_same(evidence, clue.row)
    given = [clue.row] if clue.row >= 0 and int(table.section[clue.row]) == Section.INPUT else []
    if given and is_state(runs, evidence.does, clue.row):
        return False  # what later steps go on from, whatever comes of it in this one
    for _ in range(DEEP):
        given = [row for row in given if not _puts_out_the_same(evidence, row)]
        if not given:
            return clue.row >= 0 and int(table.section[clue.row]) == Section.INPUT
        if not runs.open[table.node[given]].all():
            return False
        given = [user for row in given for user in runs.users(row)]
        if not given:
            return False
    return False


def _puts_out_the_same(evidence: Evidence, row: int) -> bool:
    """Whether the call that is given a row, or a module that makes others, puts out the same."""
    runs, seen, at = evidence.runs, evidence.seen, int(evidence.runs.npu.table.node[row])
    table, calls = runs.npu.table, runs.npu.calls
    # Of calls by what they are given.
    is_told = calls.is_api[at] and bool(evidence.does.counts[at])
    is_told |= calls.is_module[at] and _makes_others(runs, at)
    kind = calls.operators[int(calls.stem[at])].kind
    # What is joined, multiplied or looked up otherwise looks nearly the same in numbers.
    if not is_told or runs.backward[at] or kind in (Kind.JOIN, Kind.PRODUCT, Kind.LOOKUP):
        return False
    out = tensors_of(table, at, Section.OUTPUT)
    unit = runs.coarse if runs.is_mixed else runs.fine
    level = np.fmax(unit[out], evidence.noise[at])
    return bool(
        len(out) and (seen.size[out] <= FELT * level).all() and not runs.discrete[out].any()
    )


def _makes_others(runs: Runs, module: int) -> bool:
    """Whether a module calls what the reference does not call in it."""
    inside = slice(module, int(runs.npu.tree.subtree_end[module]) + 1)
    is_alone = runs.partner[inside] < 0
    return bool((runs.npu.calls.is_forward_call[inside] & is_alone).any())


def _habits(evidence: Evidence, found: list[Clue], least: float, spare: Spare) -> set[Clue]:
    """Outputs of several calls of an operator that are written of otherwise than they are used.

    What a recorder noted of tensors that are changed in place may be from before, or from after.
    """
    kind, used = evidence.runs.npu.calls.operations, _off_as_used(evidence)
    alike = [
        one
        for one in found
        if one.cause is Cause.OUTPUT and one.row >= 0 and 0 <= used[one.row] <= one.error / _USED
    ]
    times = Counter(int(kind[one.node]) for one in alike)
    for more in spare.columns:
        if more.cause is Cause.OUTPUT:
            apart = (used[more.row] >= 0) & (used[more.row] <= more.error / _USED)
            times.update(kind[more.node[apart & (more.score > least)]].tolist())
    return {one for one in alike if times[int(kind[one.node])] > 1}


def _off_as_used(evidence: Evidence) -> Float:
    """By row how far off what calls are given of it is at most; -1 where nobody is known to use it.

    On this side, or on the other one.
    """
    runs, seen = evidence.runs, evidence.seen
    table = runs.npu.table
    result = np.full(len(table) + 1, -1.0)  # the last is that of no row
    given = np.flatnonzero(
        runs.rows(Section.INPUT) & runs.npu.calls.is_api[table.node] & (seen.size >= 0)
    )
    there = np.append(runs.bench_row, -1)[np.append(runs.bench_origin, -1)[runs.other[given]]]
    for made in (runs.origin[given], there):
        np.maximum.at(result, made, seen.size[given])
    return result[:-1]
