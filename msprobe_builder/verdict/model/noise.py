"""How much two runs differ by anyhow, learnt from their calls and never beyond what types allow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import Fact
from msprobe_builder.graph.floating import SINGLE
from msprobe_builder.verdict.differences.reduced import PRODUCTS as TOLD
from msprobe_builder.verdict.differences.reduced import REDUCED, switch_of
from msprobe_builder.verdict.model.conduct import MOVES, PRODUCTS, Conduct
from msprobe_builder.verdict.model.observations import Observations
from msprobe_builder.verdict.model.propagation import Expected
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]
Float = NDArray[np.float64]

_SUSPICIOUS = 8.0  # times what fewer digits make, from which on something else has made it
_FEW = 8  # calls that say nothing of others
QUIET = 0.5  # share of calls that differ, below which a run has no noise: these have a reason
_QUIETEST = 0.2  # share of calls that differ least: faults are not among them
_MOST = 20 * SINGLE
_LEVELS = 5
_OF_ROWS = 2.0  # what was measured of them, beside what numbers of the whole lead to expect
_ALIKE = 32 * SINGLE


def noise_of(runs: Runs, seen: Observations, does: Conduct) -> Float:
    """What any call of the forward and of the backward pass adds.

    Where types differ as a habit nothing can be learnt, as all that follows is off by more; calls
    in single precision add what they may add at most.
    """
    result = np.full(2, _MOST if runs.is_mixed else 0.0)
    if runs.is_mixed:
        return result
    table, calls = runs.npu.table, runs.npu.calls
    single = calls.is_api if calls.is_api.any() else calls.is_module & does.is_known
    rows = runs.rows(Section.OUTPUT) & single[table.node] & ~runs.discrete
    rows &= (seen.size >= 0) & (does.kind[table.node] != MOVES)
    back = runs.backward[table.node]
    for direction in (0, 1):
        every = seen.size[rows & (back == bool(direction))]
        sizes = every[every > 0]
        if len(sizes) >= _FEW and len(sizes) >= QUIET * len(every):
            result[direction] = min(float(np.quantile(sizes, _QUIETEST)), _MOST)
    return result


def reduced_of(runs: Runs, seen: Observations, does: Conduct) -> tuple[Float, list[Fact]]:
    """By node what products are off by that take numbers of single precision with fewer digits.

    That is TF32 and HF32: for convolutions and recurrent layers it is the default of the hardware,
    so that one call shows it; of other products most must. 0 elsewhere. And what they are called.
    """
    size = len(runs.npu.tree)
    result, names = np.zeros(size), list[Fact]()
    if runs.is_mixed:
        return result, names
    table, calls = runs.npu.table, runs.npu.calls
    given, made = np.zeros(size), np.zeros(size)
    rows = np.flatnonzero(runs.rows(Section.INPUT, Section.PARAMETERS) & (seen.size > 0))
    np.maximum.at(given, table.node[rows], seen.size[rows])
    # Beside a gradient that cancels, such as a bias's before a normalisation, the others tell.
    rows = np.flatnonzero(runs.rows(Section.OUTPUT) & (seen.size <= _SUSPICIOUS * REDUCED))
    np.maximum.at(made, table.node[rows], seen.size[rows])
    kind = np.where(does.kind == PRODUCTS, calls.of_stems(switch_of), -1)
    alike = (given <= _ALIKE) & calls.is_api & (runs.partner >= 0)
    coarse, equal = alike & (made > REDUCED / _SUSPICIOUS), alike & (made == 0)
    for switch, least in enumerate((1, 1, _FEW // 2)):
        here = kind == switch
        many, of_all, the_same = (
            int(np.count_nonzero(here & one)) for one in (coarse, alike, equal)
        )
        is_habit = least == 1 or 2 * many >= of_all
        if many >= least and is_habit and 2 * the_same <= of_all:
            result[here] = REDUCED
            names.append(TOLD[switch])
    return result, names


def spread_of(
    runs: Runs, seen: Observations, does: Conduct, expected: Expected, asked: Int
) -> Float:
    """How many times further off than expected calls of the kinds of some rows are as a rule."""
    kind = does.kind + _LEVELS * runs.backward
    node = runs.npu.table.node
    rows = np.flatnonzero((expected.told > 0) & (seen.size > 0) & ~runs.discrete)
    ratio, group = np.log(seen.size[rows] / expected.told[rows]), kind[node[rows]]
    most = np.log(3.0 if runs.is_mixed else 4.0)
    result = np.ones(2 * _LEVELS)
    for one in np.flatnonzero(np.bincount(group) >= _FEW).tolist():
        result[one] = np.exp(np.clip(np.median(ratio[group == one]), np.log(0.5), most))
    spread = result[kind]
    # Of the steep most are off by less than expected, and few by all of it.
    spread = np.where(does.steep > 1, np.fmax(spread, 1.0), spread)[node[asked]]
    # So it is of rows that are brought to one length, of which those that vary least are off most.
    by_rows = (does.normalises & ~runs.backward)[node[asked]] & ~np.isnan(seen.exact[asked])
    return np.where(by_rows, _OF_ROWS * spread, spread)


def spread_of_edges(runs: Runs, seen: Observations, expected: Expected) -> Float:
    """The same by direction, of what calls are given."""
    table = runs.npu.table
    rows = np.flatnonzero((expected.told > 0) & (seen.size > 0) & ~runs.discrete)
    most = np.log(3.0 if runs.is_mixed else 4.0)
    result = np.ones(2)
    back = runs.backward[table.node]
    for direction in (0, 1):
        here = rows[back[rows] == bool(direction)]
        if len(here) > _FEW:
            ratio = np.median(np.log(seen.size[here] / expected.told[here]))
            result[direction] = np.exp(np.clip(ratio, 0, most))
    return result[back.astype(np.int64)]
