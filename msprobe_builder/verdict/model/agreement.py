"""Whether a run ends as the other does, whatever has differed on the way."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.floating import SINGLE
from msprobe_builder.verdict.model.clue import Evidence
from msprobe_builder.verdict.model.conduct import MOVES

Float = NDArray[np.float64]

FELT = 4.0  # rounding units from which on a module puts out something else
_OFF = 30.0  # rounding units from which on a gradient is off by more than rounding
_OFF_IN_HALF, _OF_NOISE = 8.0, 100.0  # the same of half precision, and times a run's noise
_SEVERAL = 5  # outputs that agree
DEEP = 8  # modules inside one another, which hand on what is put out inside


def gradients_agree(evidence: Evidence) -> bool:
    """Whether there are gradients, none on one side alone, and none off by more than rounding."""
    runs, seen = evidence.runs, evidence.seen
    for part, alone in ((side.part, side.other < 0) for side in runs.sides):
        if (part.table.is_tensor & (part.table.section == Section.PARAMETERS_GRAD) & alone).any():
            return False
    unit = runs.coarse if runs.is_mixed else runs.fine
    back = runs.backward[runs.npu.table.node] & runs.rows(Section.OUTPUT)
    rows = np.flatnonzero((back | runs.rows(Section.PARAMETERS_GRAD)) & (seen.size >= 0))
    return len(rows) >= _SEVERAL and bool((seen.size[rows] <= _OFF * unit[rows]).all())


def nothing_comes_of_it(evidence: Evidence) -> bool:
    """Whether the loss and all gradients of parameters agree, as far as the run's noise goes."""
    runs = evidence.runs
    rows = runs.rows(Section.PARAMETERS_GRAD) & (evidence.seen.size >= 0)
    several = np.count_nonzero(rows) >= _SEVERAL
    return bool(several) and no_gradient_tells(evidence) and results_agree(evidence, 1)


def no_gradient_tells(evidence: Evidence) -> bool:
    """Whether no gradient of a parameter is off by more than the run's noise."""
    return bool((_gradients_off(evidence) <= 1).all())


def most_gradients_agree(evidence: Evidence) -> bool:
    """The same of most of them: in half precision a few cancel. Also where there are none."""
    off = _gradients_off(evidence)
    return not len(off) or float(np.median(off)) <= 1


def _gradients_off(evidence: Evidence) -> Float:
    """How many times the run's noise the gradients of parameters are off."""
    runs, seen = evidence.runs, evidence.seen
    rows = np.flatnonzero(runs.rows(Section.PARAMETERS_GRAD) & (seen.size >= 0))
    if runs.is_mixed:
        level = _OFF_IN_HALF * runs.coarse[rows]
    else:
        level = np.fmax(_OFF * runs.fine[rows], _OF_NOISE * float(evidence.noise.max()))
    if runs.in_use > SINGLE:
        level = np.fmax(level, _OFF_IN_HALF * runs.in_use)
    return np.asarray(seen.size[rows] / level)


def results_agree(evidence: Evidence, outputs: int) -> bool:
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
    # In single precision at the end, too, of what differs in half precision before.
    unit = float(runs.coarse[(seen.size > 0) | (runs.coarse <= SINGLE)].max(initial=0.0))
    least = (_OFF if unit <= SINGLE else _OFF_IN_HALF) * unit
    level = np.fmax(least, _OFF * evidence.noise[table.node[last]])
    return bool((seen.size[last] <= level).all())


def nobody_keeps(evidence: Evidence) -> bool:
    """Whether all that comes behind the last output that is off agrees.

    And somebody has used that one: what memory held in rows that a later call leaves away.
    """
    runs, seen = evidence.runs, evidence.seen
    table = runs.npu.table
    unit = runs.coarse if runs.is_mixed else runs.fine
    judged = runs.rows(Section.OUTPUT) & (seen.size >= 0) & ~runs.discrete
    off = np.flatnonzero(judged & (seen.size > FELT * unit))
    if not len(off):
        return False
    last = int(table.node[off].max())
    later = np.flatnonzero(judged & (table.node > last))
    if len(later) < _SEVERAL:
        return False
    users = off[table.node[off] == last]
    for _ in range(DEEP):
        users = np.flatnonzero(np.isin(runs.maker, users))
        at = table.node[users]
        closed = runs.npu.calls.is_module & ~runs.open  # whose calls nobody has recorded
        leaves_away = closed[at] | (evidence.does.kind[at] == MOVES)
        leaves_away &= table.section[users] == Section.INPUT
        passed_on = leaves_away & (seen.size[users] > FELT * unit[users])
        if np.isin(table.node[users[passed_on]], table.node[later]).any():
            return True
    return False
