"""All clues of a comparison, in order: the first of the run comes first."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.clue import THRESHOLD, Clue, Evidence
from msprobe_builder.verdict.model.edges import maker_guessed, of_edges
from msprobe_builder.verdict.model.exchanged import without_exchanged
from msprobe_builder.verdict.model.lacking import cut_off, of_lacking
from msprobe_builder.verdict.model.outputs import looked_behind, of_outputs
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
Float = NDArray[np.float64]


def clues(evidence: Evidence) -> list[Clue]:
    """All clues, in no order."""
    return [
        *of_outputs(evidence),
        *of_edges(evidence),
        *of_lacking(evidence.runs),
        *cut_off(evidence.runs, evidence.requires_grad),
    ]


_MOST = 200  # clues that are looked at closely
_FELT = 4.0  # rounding units from which on a module puts out something else
_VANISHED = 50.0  # times smaller an error is behind the module in which it was
_NUMBERS = (Cause.OUTPUT, Cause.EXTERNAL, Cause.BETWEEN)
_DOUBT = 30.0  # a score below which numbers alone are no more than a doubt
_DWARFS = 30.0  # times more surprising, which no doubt before it explains
_OF_PROGRAM = (Cause.ARGUMENT, Cause.GRADIENT, Cause.WEIGHT)


def felt(evidence: Evidence, found: list[Clue]) -> list[Clue]:
    """Those that somebody feels; others are two formulas for one thing, or calls paired wrongly.

    What is off inside of a module, and vanishes in what that puts out, has explained itself.
    """
    runs, seen = evidence.runs, evidence.seen
    table, calls, parent = runs.npu.table, runs.npu.calls, runs.npu.tree.parent
    unit = runs.coarse if runs.is_mixed else runs.fine
    out = np.flatnonzero(runs.rows(Section.OUTPUT) & runs.open[table.node] & ~runs.discrete)
    worst = np.full(len(runs.npu.tree), -1.0)
    times = np.where(np.isnan(seen.size[out]), np.inf, seen.size[out] / unit[out])
    np.maximum.at(worst, table.node[out], times)
    result = []
    for one in found:
        at = int(table.node[one.row]) if one.row >= 0 else one.node
        around = int(parent[at])
        is_inside = one.row >= 0 and calls.direction[at] != Direction.NONE
        if one.cause not in _OF_PROGRAM and is_inside and 0 <= worst[around] <= _FELT:
            units = one.error / unit[one.row]
            if calls.is_module[around] and units > _VANISHED * max(worst[around], 1.0):
                continue
        result.append(one)
    return result


def ranked(evidence: Evidence, found: list[Clue]) -> list[Clue]:
    """Those above the threshold, each node once, the first of the run first."""
    runs = evidence.runs
    place = _placed(runs)
    first = _once(sorted((one for one in found if one.score > THRESHOLD), key=place)[:_MOST])
    looked = [_explained(evidence, one) for one in first]
    return _credible_first(without_exchanged(runs, _once(sorted(looked, key=place))))


def _credible_first(found: list[Clue]) -> list[Clue]:
    """The same, behind them those that a later one dwarfs.

    What numbers alone doubt makes nothing else so much more surprising: errors that a call
    is given are part of what is expected of it.
    """
    dwarfed: list[bool] = []
    largest = 0.0
    for one in reversed(found):
        doubts = one.cause in _NUMBERS and one.score < _DOUBT
        dwarfed.append(doubts and largest > _DWARFS * one.score)
        largest = max(largest, one.score)
    dwarfed.reverse()
    marked = list(zip(found, dwarfed, strict=True))
    return [one for late in (False, True) for one, is_late in marked if is_late is late]


def _explained(evidence: Evidence, clue: Clue) -> Clue:
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

    def place(one: Clue) -> tuple[float, float]:
        if one.side == 0 and parameters[one.node] and one.node < last:
            return last + 0.25, -one.score
        at = float(one.node) if one.side == 0 else float(before[one.node]) + 0.5
        return at, -one.score

    return place
