"""What outputs nearby are off by, which tells of tensors that nobody is known to have made."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Section
from msprobe_builder.verdict.model.clue import Evidence
from msprobe_builder.verdict.model.observations import WORST
from msprobe_builder.verdict.model.outside import BEFORE

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
Float = NDArray[np.float64]

_NORM = 3  # of what was read
_NEAR = 200  # how far outputs lie that tell what an unknown one is off by
_ALL_EQUAL, _FEW = 0.9, 8  # of the outputs before; fewer agree by chance
SMALL = 50.0  # times shorter than what it is made of a gradient is that cancels


def level_before(evidence: Evidence, rows: Int) -> Float:
    """What the outputs before some rows are off by at most, of those that are near."""
    runs, seen, latent = evidence.runs, evidence.seen, evidence.expected.latent
    table = runs.npu.table
    outputs = np.flatnonzero(~np.isnan(evidence.expected.told) & ~np.isnan(latent))
    # What a module puts out is there once all that stands in it has run.
    made_at = runs.npu.tree.subtree_end[table.node[outputs]]
    order = np.argsort(made_at, kind="stable")
    outputs, made_at = outputs[order], made_at[order]
    result = np.zeros(len(rows))
    for back in (False, True):
        here = runs.backward[table.node[outputs]] == back
        some, at = outputs[here], made_at[here]
        chosen = np.flatnonzero(runs.backward[table.node[rows]] == back)
        if not len(outputs) or not len(chosen):
            continue
        row, node = rows[chosen, None], table.node[rows[chosen], None]
        place = np.searchsorted(at, node) - 1 - np.arange(BEFORE)
        near = some[np.maximum(place, 0)] if len(some) else np.zeros_like(place)
        is_near = (place >= 0) & (node - table.node[near] < _NEAR)

        def most(values: Float, where: Bool) -> Float:
            return np.asarray(np.where(where, np.nan_to_num(values), 0.0).max(axis=1))

        worst = most(latent[near], is_near)
        if not runs.is_mixed:  # so many agree by no chance
            equal = (is_near & (seen.size[near] == 0)).sum(axis=1)
            agree = equal >= _ALL_EQUAL * np.maximum(is_near.sum(axis=1), _FEW)
            worst[agree] = most(seen.size[near], is_near)[agree]
        if back:  # a sum of gradients may be that much shorter than what it is a sum of
            alike = is_near & (table.shape_id[near] == table.shape_id[row])
            with np.errstate(all="ignore"):
                shorter = most(seen.norm[near], alike) / seen.norm[rows[chosen]] / SMALL
            worst *= np.where(seen.norm[rows[chosen]] > 0, np.fmax(1.0, shorter), 1.0)
            for one in np.flatnonzero(~is_near.any(axis=1)).tolist():  # a loss nobody recorded
                last = outputs[table.node[outputs] < node[one, 0]][-1:]
                worst[one] = float(latent[last].max(initial=0.0))
        else:
            behind = np.flatnonzero(np.maximum.accumulate(runs.backward)[node[:, 0]])
            put_out = runs.rows(Section.OUTPUT) & runs.backward[table.node]
            gradients = np.flatnonzero(put_out) if len(behind) else behind
            for one in behind.tolist():
                of_them = _of_gradients_before(evidence, gradients, int(rows[chosen[one]]))
                worst[one] = max(worst[one], of_them)
        result[chosen] = np.minimum(worst, WORST)
    return result


def _of_gradients_before(evidence: Evidence, gradients: Int, row: int) -> float:
    """What a tensor is off by if it is a sum of gradients of its size, which are rows.

    Little may be left of a sum, as of a bias before a normalisation.
    """
    runs, seen = evidence.runs, evidence.seen
    table = runs.npu.table
    if not seen.norm[row] > 0:
        return 0.0
    before = gradients[: np.searchsorted(gradients, table.first[table.node[row]])]
    parts = before[table.shape_id[before] == table.shape_id[row]]
    # Of some of them only this run is known.
    norm = np.where(np.isnan(seen.norm[parts]), table.statistics[_NORM, parts], seen.norm[parts])
    most = np.nan_to_num(evidence.expected.latent[parts] * norm).max(initial=0.0)
    return float(most / seen.norm[row])
