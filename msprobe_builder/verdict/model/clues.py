"""All clues of a comparison, in order: the first of the run comes first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.calls import operations
from msprobe_builder.operators.operator import Kind
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.clue import ONE_SIDED, THRESHOLD, Clue, Evidence
from msprobe_builder.verdict.model.conduct import MOVES
from msprobe_builder.verdict.model.converging import Leaks, Ways
from msprobe_builder.verdict.model.edges import maker_guessed, of_edges
from msprobe_builder.verdict.model.exchanged import without_exchanged
from msprobe_builder.verdict.model.lacking import calls_alone, cut_off, of_lacking
from msprobe_builder.verdict.model.outputs import first_alone, looked_behind, of_draws, of_outputs
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
Float = NDArray[np.float64]


def clues(evidence: Evidence) -> list[Clue]:
    """All clues, in no order."""
    return [
        *of_outputs(evidence),
        *of_draws(evidence),
        *of_edges(evidence),
        *of_lacking(evidence.runs),
        *cut_off(evidence.runs, evidence.requires_grad),
    ]


_MOST = 200  # clues that are looked at closely
_FELT = 4.0  # rounding units from which on a module puts out something else
_VANISHED = 50.0  # times smaller an error is behind the module in which it was
_NUMBERS = (Cause.OUTPUT, Cause.EXTERNAL, Cause.BETWEEN)
_GIVEN = (*_NUMBERS, Cause.MISSING, Cause.EXTRA, Cause.WIRING)
_OFF = 30.0  # rounding units from which on a gradient is off by more than rounding
_OFF_IN_HALF, _OF_NOISE = 8.0, 100.0  # the same of half precision, and times a run's noise
_DOUBT = 30.0  # a score below which numbers alone are no more than a doubt
_DWARFS = 30.0  # times more surprising, which no doubt before it explains
_USED = 20.0  # times less than a tensor itself is what it is used as off
_LAST = 3  # outputs that a forward pass ends with, on which what calls are given shows
_SEVERAL = 5  # outputs that agree
_DEEP = 8  # modules inside one another, which hand on what is put out inside
_OF_PROGRAM = (Cause.ARGUMENT, Cause.GRADIENT, Cause.WEIGHT)


def felt(evidence: Evidence, found: list[Clue]) -> list[Clue]:
    """Those above the threshold that somebody feels; others are two formulas, or paired wrongly.

    What is off inside of a module, and vanishes in what that puts out, has explained itself.
    """
    runs, seen = evidence.runs, evidence.seen
    found = [one for one in found if one.score > THRESHOLD]
    table, calls, parent = runs.npu.table, runs.npu.calls, runs.npu.tree.parent
    unit = runs.coarse if runs.is_mixed else runs.fine
    out = np.flatnonzero(runs.rows(Section.OUTPUT) & runs.open[table.node] & ~runs.discrete)
    worst = np.full(len(runs.npu.tree), -1.0)
    times = np.where(np.isnan(seen.size[out]), np.inf, seen.size[out] / unit[out])
    np.maximum.at(worst, table.node[out], times)
    _add_gradients(runs, seen.size / unit, worst)
    result: list[Clue] = []
    dead = _results_agree(evidence, 1) and _nobody_keeps(evidence)
    no_gradient_is_off = _gradients_agree(evidence)
    habits = _habits(evidence, found)
    ways, leaks = Ways(evidence), Leaks(evidence)
    for one in sorted(found, key=_placed(runs)):
        if len(result) == _MOST:
            break  # more is not told of any comparison
        if dead and one.cause is Cause.OUTPUT:
            continue
        if one in habits:
            continue
        if one.cause in _GIVEN and _comes_to_the_same(evidence, one) and ways.agree(one.row):
            continue
        is_gross = one.row >= 0 and one.error > _VANISHED * _FELT * unit[one.row]
        if one.cause in _GIVEN and is_gross and ways.meet_again(one):
            one = replace(one, meets_again=True)
        if one.cause is Cause.GRADIENT and no_gradient_is_off:
            continue
        at = int(table.node[one.row]) if one.row >= 0 else one.node
        around = int(parent[at])
        is_inside = one.row >= 0 and calls.direction[at] != Direction.NONE
        if one.cause not in _OF_PROGRAM and is_inside and 0 <= worst[around] <= _FELT:
            units = one.error / unit[one.row]
            vanishes = calls.is_module[around] and units > _VANISHED * max(worst[around], 1.0)
            if vanishes and leaks.leaves(at, around):
                vanishes = False
            if vanishes:
                if not (runs.is_mixed and one.cause is Cause.WIRING):
                    continue
                one = replace(one, meets_again=True)  # half precision hides what comes of it
        result.append(one)
    end = calls.last_pass if _nothing_comes_of_it(evidence) else -1
    marked = [
        replace(one, meets_again=True)
        if _goes_back(runs, one, ways) or (one.cause in _GIVEN and 0 <= _at(runs, one) <= end)
        else one
        for one in result
    ]
    return _as_the_others(runs, marked)


def _as_the_others(runs: Runs, found: list[Clue]) -> list[Clue]:
    """The same: what does not meet again in one module does so by chance in another."""
    kinds = [operations(one.calls) for one in (runs.npu, runs.bench)]
    keys = [(one.side, one.cause, int(kinds[one.side][one.node])) for one in found]
    parts = {
        key
        for key, one in zip(keys, found, strict=True)
        if not one.meets_again and one.cause in ONE_SIDED and one.score > _DOUBT
    }
    return [
        replace(one, meets_again=False) if key in parts else one
        for key, one in zip(keys, found, strict=True)
    ]


def _at(runs: Runs, clue: Clue) -> int:
    return int(runs.npu.table.node[clue.row]) if clue.row >= 0 else -1


def _goes_back(runs: Runs, clue: Clue, ways: Ways) -> bool:
    """Whether a gradient goes back along a way that another formula has taken."""
    if clue.side or clue.cause not in _GIVEN:
        return False
    return bool(runs.backward[clue.node]) and int(runs.npu.calls.twin[clue.node]) in ways.passed


def _add_gradients(runs: Runs, times: Float, worst: Float) -> None:
    """Count what a backward pass leaves in parameters among what its modules put out."""
    rows = np.flatnonzero(runs.rows(Section.PARAMETERS_GRAD) & (times > _FELT))
    for row in rows.tolist():
        node = int(runs.npu.tree.parent[runs.npu.table.node[row]])
        while node > 0 and worst[node] < times[row]:
            worst[node] = times[row]
            node = int(runs.npu.tree.parent[node])


def _comes_to_the_same(evidence: Evidence, clue: Clue) -> bool:
    """Whether a call puts out the same though it is given something else: another formula."""
    runs, seen = evidence.runs, evidence.seen
    table = runs.npu.table
    if clue.row < 0 or table.section[clue.row] != Section.INPUT:
        return False
    at = int(table.node[clue.row])
    is_told = runs.npu.calls.is_api[at] and bool(evidence.does.counts[at])  # by what it is given
    kind = runs.npu.calls.operators[int(runs.npu.calls.stem[at])].kind
    # Tensors that are joined, or multiplied, in another order look the same in numbers.
    if not is_told or runs.backward[at] or kind in (Kind.JOIN, Kind.PRODUCT):
        return False
    first, last = np.searchsorted(table.node, [at, at + 1]).tolist()
    is_output = table.is_tensor[first:last] & (table.section[first:last] == Section.OUTPUT)
    out = first + np.flatnonzero(is_output)
    unit = runs.coarse if runs.is_mixed else runs.fine
    level = np.fmax(unit[out], evidence.noise[at])
    return bool(
        len(out) and (seen.size[out] <= _FELT * level).all() and not runs.discrete[out].any()
    )


def _habits(evidence: Evidence, found: list[Clue]) -> set[Clue]:
    """Outputs of several calls of an operator that are written of otherwise than they are used.

    What a recorder noted of tensors that are changed in place may be from before, or from after.
    """
    kind, used = operations(evidence.runs.npu.calls), _off_as_used(evidence)
    alike = [
        one
        for one in found
        if one.cause is Cause.OUTPUT and one.row >= 0 and 0 <= used[one.row] <= one.error / _USED
    ]
    times = Counter(int(kind[one.node]) for one in alike)
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


def _gradients_agree(evidence: Evidence) -> bool:
    """Whether there are gradients, none on one side alone, and none off by more than rounding."""
    runs, seen = evidence.runs, evidence.seen
    for part, alone in ((runs.npu, runs.other < 0), (runs.bench, runs.bench_row < 0)):
        if (part.table.is_tensor & (part.table.section == Section.PARAMETERS_GRAD) & alone).any():
            return False
    unit = runs.coarse if runs.is_mixed else runs.fine
    back = runs.backward[runs.npu.table.node] & runs.rows(Section.OUTPUT)
    rows = np.flatnonzero((back | runs.rows(Section.PARAMETERS_GRAD)) & (seen.size >= 0))
    return len(rows) >= _SEVERAL and bool((seen.size[rows] <= _OFF * unit[rows]).all())


def _nothing_comes_of_it(evidence: Evidence) -> bool:
    """Whether the loss and all gradients of parameters agree, as far as the run's noise goes."""
    runs = evidence.runs
    rows = runs.rows(Section.PARAMETERS_GRAD) & (evidence.seen.size >= 0)
    several = np.count_nonzero(rows) >= _SEVERAL
    return bool(several) and _no_gradient_tells(evidence) and _results_agree(evidence, 1)


def _no_gradient_tells(evidence: Evidence) -> bool:
    """Whether no gradient of a parameter is off by more than the run's noise."""
    runs, seen = evidence.runs, evidence.seen
    rows = np.flatnonzero(runs.rows(Section.PARAMETERS_GRAD) & (seen.size >= 0))
    if runs.is_mixed:
        level = _OFF_IN_HALF * runs.coarse[rows]
    else:
        level = np.fmax(_OFF * runs.fine[rows], _OF_NOISE * float(evidence.noise.max()))
    return bool((seen.size[rows] <= level).all())


def _results_agree(evidence: Evidence, outputs: int) -> bool:
    """Whether the last outputs of the forward pass agree, as where calls came in another order."""
    runs, seen = evidence.runs, evidence.seen
    table, calls = runs.npu.table, runs.npu.calls
    back = np.flatnonzero(runs.backward)
    end = int(back[0]) if len(back) else len(runs.npu.tree)
    told = calls.is_api if calls.is_api.any() else calls.is_module
    forward = told & (calls.direction == Direction.FORWARD)
    passes = forward & (np.arange(len(runs.npu.tree)) < end)
    judged = runs.rows(Section.OUTPUT) & (seen.size >= 0) & ~runs.discrete
    last = np.flatnonzero(judged & passes[table.node])[-outputs:]
    # In single precision at the end, too, of what was made of half precision before.
    unit = float(runs.coarse[runs.other >= 0].max(initial=0.0))
    level = np.fmax(unit, evidence.noise[table.node[last]])
    return bool((seen.size[last] <= _OFF * level).all())


def _nobody_keeps(evidence: Evidence) -> bool:
    """Whether all that comes behind the last output that is off agrees.

    And somebody has used that one: what memory held in rows that a later call leaves away.
    """
    runs, seen = evidence.runs, evidence.seen
    table = runs.npu.table
    unit = runs.coarse if runs.is_mixed else runs.fine
    judged = runs.rows(Section.OUTPUT) & (seen.size >= 0) & ~runs.discrete
    off = np.flatnonzero(judged & (seen.size > _FELT * unit))
    if not len(off):
        return False
    last = int(table.node[off].max())
    later = np.flatnonzero(judged & (table.node > last))
    if len(later) < _SEVERAL:
        return False
    users = off[table.node[off] == last]
    for _ in range(_DEEP):
        users = np.flatnonzero(np.isin(runs.maker, users))
        at = table.node[users]
        closed = runs.npu.calls.is_module & ~runs.open  # whose calls nobody has recorded
        leaves_away = closed[at] | (evidence.does.kind[at] == MOVES)
        leaves_away &= table.section[users] == Section.INPUT
        passed_on = leaves_away & (seen.size[users] > _FELT * unit[users])
        if np.isin(table.node[users[passed_on]], table.node[later]).any():
            return True
    return False


def ranked(evidence: Evidence, found: list[Clue]) -> list[Clue]:
    """Each node once, the first of the run first."""
    runs = evidence.runs
    place = _placed(runs)
    first = _once(sorted(found, key=place)[:_MOST])
    kinds = operations(runs.npu.calls), operations(runs.bench.calls)
    looked = [_explained(evidence, one, kinds) for one in first]
    # A call of one side alone is told where its effect shows: what stands between comes before it.
    stands = [
        place(one if one.cause in ONE_SIDED and one.row >= 0 else found)
        for one, found in zip(first, looked, strict=True)
    ]
    order = sorted(range(len(looked)), key=stands.__getitem__)
    several = _once([looked[one] for one in order])
    credible = _credible_first(
        without_exchanged(runs, several, backward=_no_gradient_tells(evidence))
        if _results_agree(evidence, _LAST)
        else several
    )
    return _once([*credible, *(calls_alone(runs) if runs.is_mixed else [])])


def _credible_first(found: list[Clue]) -> list[Clue]:
    """The same, behind them those that a later one dwarfs.

    What numbers alone doubt makes nothing else so much more surprising: errors that a call
    is given are part of what is expected of it.
    """
    if [one.cause for one in found[:2]] == [Cause.MISSING, Cause.EXTRA]:
        found = [found[1], found[0], *found[2:]]  # in whose place this run has another call
    dwarfed: list[bool] = []
    largest = 0.0
    for one in reversed(found):
        doubts = one.cause in _NUMBERS and one.score < _DOUBT
        dwarfed.append(doubts and largest > _DWARFS * one.score)
        largest = max(largest, one.score)
    dwarfed.reverse()
    marked = list(zip(found, dwarfed, strict=True))
    return [one for late in (False, True) for one, is_late in marked if is_late is late]


def _explained(evidence: Evidence, clue: Clue, kinds: tuple[Int, Int]) -> Clue:
    calls, parent = evidence.runs.npu.calls, evidence.runs.npu.tree.parent
    if not calls.is_api.any():
        around = int(parent[clue.node])
        if clue.cause in (Cause.EXTERNAL, Cause.BETWEEN) and around > 0 and calls.is_module[around]:
            # Nothing but modules was recorded: what happens between them is the module's around.
            return replace(clue, node=around, cause=Cause.BETWEEN)
        return clue
    if clue.cause in ONE_SIDED and clue.row >= 0:
        return first_alone(evidence.runs, clue, kinds[clue.side])
    if clue.cause is Cause.OUTPUT and evidence.runs.npu.calls.is_api[clue.node]:
        return looked_behind(evidence, clue)
    return maker_guessed(evidence.runs, clue) if clue.cause is Cause.EXTERNAL else clue


def _once(found: list[Clue]) -> list[Clue]:
    result: dict[tuple[int, int], Clue] = {}
    for one in found:
        result.setdefault((one.side, one.node), one)
    return list(result.values())


def _placed(runs: Runs) -> Callable[[Clue], tuple[float, float]]:
    """Where a clue stands in the run; gradients of parameters stand behind the passes."""
    before = np.maximum.accumulate(np.where(runs.bench_partner >= 0, runs.bench_partner, 0))
    last = float(runs.npu.calls.last_pass)
    parameters = runs.npu.calls.direction == Direction.NONE
    # What a module puts out comes of all that stands in it.
    ends = runs.npu.tree.subtree_end

    def place(one: Clue) -> tuple[float, float]:
        if one.side == 0 and parameters[one.node] and one.node < last:
            return last + 0.25, float(one.node)
        at = float(one.node) if one.side == 0 else float(before[one.node]) + 0.5
        if one.side == 0 and one.cause is Cause.OUTPUT and ends[one.node] > one.node:
            at = float(ends[one.node]) + 0.25 * (1 - one.node / len(ends))  # inner ones first
        if one.side == 0 and one.cause is Cause.BETWEEN and one.row >= 0:
            at = float(runs.npu.table.node[one.row])
        return at, -one.score

    return place
