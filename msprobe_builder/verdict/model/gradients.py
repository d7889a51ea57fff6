"""What gradients owe to the tensors that their forward calls kept, and to what is left of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Section
from msprobe_builder.verdict.model.amounts import A_FLIP, largest
from msprobe_builder.verdict.model.conduct import PRODUCTS, REACH, SUMS, Conduct
from msprobe_builder.verdict.model.elements import STEEPEST
from msprobe_builder.verdict.model.judged_rows import JudgedRows
from msprobe_builder.verdict.model.observations import COMMON, WORST, Observations
from msprobe_builder.verdict.model.products import CLIP
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
Float = NDArray[np.float64]

_NORM = 3  # of the statistics
_KEPT = 3.0  # of the error of what the forward call kept, what a gradient shows
OF_MODULES = 4.0  # a module whose class tells no operator makes many calls
_STEEPEST_OF_SUMS = 3.0  # what is no power of anything


def _narrow(places: Int) -> NDArray[Any]:
    """With 32 bits, as these are kept while errors are carried."""
    return places.astype(np.int32)


class Gradients:
    """Looks at errors again and again; what is the same each time is worked out once.

    ``own`` is what each output is off by though what went in agrees.
    """

    def __init__(
        self, runs: Runs, rows: JudgedRows, seen: Observations, does: Conduct, own: Float
    ) -> None:
        table, twin, self._size = runs.npu.table, runs.npu.calls.twin, len(runs.npu.tree)
        out, self._own = rows.outputs, own
        node = table.node[out]
        backward = runs.backward[node]
        back = np.flatnonzero(backward & (twin[node] >= 0))
        self._back, self._ahead = _narrow(back), _narrow(twin[node[back]])
        self._elements, self._kinks = seen.elements[out[back]], does.kinks[node[back]]
        self._weight = _KEPT * np.where(does.composite[node[back]], OF_MODULES, 1.0)
        self._weight[self._kinks & ~np.isnan(seen.exact[out[back]])] = 1.0
        is_ahead = np.zeros(self._size, dtype=bool)
        is_ahead[self._ahead] = True
        is_ahead &= ~runs.backward
        self._kept = _narrow(np.flatnonzero(table.is_tensor & is_ahead[table.node]))
        self._kept_at = _narrow(table.node[self._kept])
        # Slopes of exponentials are off by a fraction that is what these are given is off by.
        reached = (does.kind == REACH)[self._kept_at] & ~np.isnan(seen.exact[self._kept])
        reach = np.clip(np.nan_to_num(seen.rms[self._kept]), 1.0, CLIP)
        self._reach = np.where(reached, reach, 1.0)
        kind = does.kind[node]
        products, scales = back[kind[back] == PRODUCTS], back[does.scales[node[back]]]
        self._products = products, rows.cancelled[products]
        self._scaled = scales, rows.uneven[scales]
        self._steep = self._steepness(rows, seen, does, kind, node)
        # A gradient that is reduced cancels: its error stands in proportion to what went in.
        given = rows.inputs[~runs.discrete[rows.inputs]]
        at = table.node[given]
        self._given = _narrow(given[runs.backward[at]])
        self._given_at = _narrow(table.node[self._given])
        length, most = (
            largest(column[given], at, self._size) for column in (seen.norm, seen.elements)
        )
        size_in = largest(seen.rms[given], at, self._size)
        with np.errstate(all="ignore"):
            longer = length[node] / seen.norm[out]
            one_way = np.sqrt(1 + COMMON**2 * most[node] / seen.elements[out])
            # What is less than rounding of what many calls made it of is nothing but that.
            usual = np.nan_to_num(length / np.sqrt(most))[node[back]]
            vanishes = does.composite[node[back]] & (own[back] * usual > seen.rms[out[back]])
        self._vanished = back[vanishes]
        fewer = backward & (seen.elements[out] < most[node])
        self._reduced = reduced = np.flatnonzero(fewer & np.isfinite(longer))
        self._reduced_by = node[reduced], own[reduced], longer[reduced], one_way[reduced]
        # As much is left of the errors where a slope of nothing takes most of the others away.
        measured = backward & ~np.isnan(seen.exact[out])
        self._masked = masked = np.flatnonzero(measured & (does.bounded | does.kinks)[node])
        with np.errstate(all="ignore"):
            larger = size_in[node[masked]] / seen.rms[out[masked]]
            self._masked_by = node[masked], np.nan_to_num(larger)
        # A normalisation takes away what lies along two directions, of which little may be left.
        centred = measured & (does.normalises & (does.kind != REACH))[node]
        centred &= (twin[node] >= 0) & (table.position[out] == 0)
        self._centred = np.flatnonzero(centred)
        self._centred_by = self._cancelled(runs, seen, out[self._centred], size_in)
        # Where nothing was left of it there, rounding may leave as much here.
        self._left = left = np.flatnonzero(fewer & (seen.norm[out] == 0))
        whole = np.where(np.isfinite(one_way[left]), one_way[left], 1.0)
        here = table.statistics[_NORM, out[left]]
        self._left_by = node[left], own[left], length[node[left]], whole, here
        # A softmax takes the mean off, by what it weighs: y(g - sum(gy)), of which little may be
        # left.
        put_out = out[~runs.discrete[out]]
        sizes = largest(seen.rms[put_out], table.node[put_out], self._size)
        weighs = back[(does.normalises[node] & (kind == REACH))[back]]
        size_of = np.minimum(sizes[twin[node[weighs]]], 1.0)
        self._weighed = weighs
        self._weighed_by = node[weighs], own[weighs], longer[weighs], size_of

    def _cancelled(self, runs: Runs, seen: Observations, out: Int, size_in: Float) -> Float:
        """By gradient of what a normalisation was given: g·w/σ over what is left of it."""
        table, twin = runs.npu.table, runs.npu.calls.twin
        kept = self._kept[runs.rows(Section.INPUT, Section.PARAMETERS)[self._kept]]
        at, first = table.node[kept], table.position[kept] == 0
        trained = ~first & (table.requires_grad[kept] == 1)  # and no average that it keeps
        scale, weight = np.zeros((2, self._size))
        with np.errstate(all="ignore"):
            varies = seen.rms[kept] * np.sqrt(1 - (seen.mean[kept] / seen.rms[kept]) ** 2)
            np.maximum.at(scale, at[first], np.nan_to_num(varies[first]))
            np.maximum.at(weight, at[trained], np.nan_to_num(seen.rms[kept[trained]]))
            node = table.node[out]
            weighs = np.where(weight[twin[node]] > 0, weight[twin[node]], 1.0)
            told = size_in[node] * weighs / scale[twin[node]] / seen.rms[out]
        told = np.nan_to_num(told, nan=1.0, posinf=1.0)
        return np.clip(np.fmax(told, 1 / np.fmax(told, 1 / CLIP)), 1.0, CLIP)

    def _steepness(
        self, rows: JudgedRows, seen: Observations, does: Conduct, kind: Int, node: Int
    ) -> tuple[Int, Float]:
        """Outputs whose errors grow with the slope of what was kept, and by how much."""
        steep = np.ones(self._size)
        np.maximum.at(steep, self._kept_at, rows.steep[self._kept])
        is_sum = (kind[self._back] <= SUMS) | (does.steep[node[self._back]] > 1)
        where, ahead = self._back[is_sum], self._ahead[is_sum]
        power = does.steep[node[where]]
        powers = np.minimum(steep[ahead] ** power, STEEPEST)
        read = np.isnan(seen.exact[rows.outputs[where]])
        plain = np.where(read, np.minimum(steep[ahead], _STEEPEST_OF_SUMS), 1.0)
        return where, np.where(power > 1, powers, plain)

    def add_to(self, result: Float, latent: Float) -> None:
        """Add by output what gradients owe to ``latent``, the errors of all rows."""
        kept = largest(latent[self._kept] * self._reach, self._kept_at, self._size)
        error = np.minimum(kept[self._ahead], WORST)
        flips = error * self._elements  # of elements whose density is about one where they turn
        flipped = np.where(
            flips > A_FLIP, np.fmax(np.sqrt(error), 1 / np.sqrt(self._elements)), error
        )
        error = np.where(self._kinks & (error < 1), flipped, error)
        result[self._back] = np.hypot(result[self._back], self._weight * error)
        for where, times in (self._products, self._scaled):
            result[where] *= times
        error_in = largest(latent[self._given], self._given_at, self._size)
        with np.errstate(all="ignore"):
            node, own, longer, one_way = self._reduced_by
            told = np.minimum(WORST, np.fmax(error_in[node], own) * longer * one_way)
            result[self._reduced] = np.fmax(result[self._reduced], told)
            node, longer = self._masked_by
            told = np.minimum(WORST, error_in[node] * longer)
            result[self._masked] = np.fmax(result[self._masked], told)
            result[self._centred] *= self._centred_by
            node, own, length, whole, here = self._left_by
            left_over = np.fmax(error_in[node], own) * length * whole
            result[self._left[here <= left_over]] = WORST
            node, own, longer, size_of = self._weighed_by
            told = np.nan_to_num(np.fmax(error_in[node], own) * longer * size_of)
            result[self._weighed] = np.fmax(result[self._weighed], np.minimum(WORST, told))
        result[self._vanished] = WORST
        where, times = self._steep
        result[where] *= times
