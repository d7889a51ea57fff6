"""Gradients of parameters that are further off than what their modules' backward calls were."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Section
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.clue import UNKNOWN_MAKER, Clue, Evidence
from msprobe_builder.verdict.model.levels import SMALL, level_before
from msprobe_builder.verdict.model.observations import WORST, Observations, surprise
from msprobe_builder.verdict.model.runs import Runs
from msprobe_builder.verdict.model.unmatched import of_unmatched, unmatched

Float = NDArray[np.float64]

_NORM = 3  # of what was read


def of_parameter_gradients(evidence: Evidence) -> Iterable[Clue]:
    """Gradients of parameters, as far off as the worst of their module's backward calls."""
    runs, seen, latent = evidence.runs, evidence.seen, evidence.expected.latent
    table, tree, calls = runs.npu.table, runs.npu.tree, runs.npu.calls
    rows = np.flatnonzero(runs.rows(Section.PARAMETERS_GRAD) & (runs.other >= 0))
    if not len(rows) or tree.micro_steps != runs.bench.tree.micro_steps:
        return  # of other numbers of passes they are other sums
    matched = runs.partner[table.node] >= 0
    back = np.flatnonzero(runs.backward[table.node] & ~np.isnan(latent) & matched)
    above = np.where(
        calls.is_api[table.node[back]], tree.parent[table.node[back]], table.node[back]
    )
    stem = calls.stem[above]
    worst, longest = np.full(len(calls.stems), np.nan), np.zeros(len(calls.stems))
    np.fmax.at(worst, stem, latent[back])
    np.maximum.at(longest, stem, np.nan_to_num(seen.norm[back]))
    names = {one: number for number, one in enumerate(calls.stems)}
    of = np.array(
        [
            names.get(calls.stems[one].partition(".parameters_grad")[0], -1)
            for one in calls.stem[table.node[rows]].tolist()
        ]
    )
    base = np.where(of >= 0, worst[of], np.nan)
    unknown = np.isnan(base)
    base[unknown] = level_before(evidence, rows[unknown])
    # Those of one dimension are sums, in which much cancels; others are so where they are small.
    flat = np.array(["," not in runs.texts.values[one] for one in table.shape_id[rows].tolist()])
    with np.errstate(all="ignore"):
        length = np.fmax(seen.norm[rows], table.statistics[_NORM, rows])
        cancelled = np.fmax(1.0, longest[of] / np.where(flat, 1.0, SMALL) / length)
        unrelated = _unrelated(runs, seen)[of] * np.sqrt(np.sqrt(seen.elements[rows])) / length
        cancelled = np.where(flat, cancelled, np.fmax(cancelled, np.nan_to_num(unrelated)))
    unit = (runs.coarse if runs.is_mixed else runs.fine)[rows]
    made, there = runs.maker[rows], runs.bench_maker[runs.other[rows]]
    extra = (made >= 0) & unmatched(runs.npu, runs.partner)[table.node[made]]
    missing = (there >= 0) & unmatched(runs.bench, runs.bench_partner)[runs.bench.table.node[there]]
    # Another kernel takes the same sum in another order: what it rounds is left of what cancels.
    base = np.where(extra | missing, np.fmax(base, unit), base)
    base = np.where(~unknown, np.minimum(WORST, base * cancelled), base)
    floor = 0.6 * unit
    told = np.fmax(floor, 2 * base)
    score = surprise(seen, rows, told) * np.where(unknown, UNKNOWN_MAKER, 1.0)
    for place in np.flatnonzero(score > 1).tolist():
        row = int(rows[place])
        error, expected = float(seen.size[row]), float(told[place])
        one = Clue(float(score[place]), 0, int(table.node[row]), Cause.OUTPUT, row, error, expected)
        if missing[place]:
            yield of_unmatched(runs, one, 1, int(runs.bench.table.node[there[place]]))
        elif extra[place]:
            yield of_unmatched(runs, one, 0, int(table.node[made[place]]))
        else:
            yield replace(one, rival="unknown") if unknown[place] else one


def _unrelated(runs: Runs, seen: Observations) -> Float:
    """By stem of modules ‖g‖‖x‖ over the square root of the length of their product.

    Of a gradient of n elements that length is √(n_g·n_x / n), the root of √n is left to the caller.
    """
    table, calls = runs.npu.table, runs.npu.calls
    rows = runs.rows(Section.INPUT) & (table.position == 0) & (seen.norm > 0)
    rows = np.flatnonzero(rows & ~runs.discrete)
    first = np.full(len(runs.npu.tree), -1)
    first[table.node[rows]] = rows
    back = np.flatnonzero(calls.is_module & runs.backward & (calls.twin >= 0) & (first >= 0))
    back = back[first[calls.twin[back]] >= 0]
    given, kept = first[back], first[calls.twin[back]]
    result = np.full(len(calls.stems), np.nan)
    length = np.sqrt(np.sqrt(seen.elements[given] * seen.elements[kept]))
    np.fmax.at(result, calls.stem[back], seen.norm[given] * seen.norm[kept] / length)
    return result
