"""What calls make of the errors of what they are given, by the kind of what they compute."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.operators import questions
from msprobe_builder.verdict.model.conduct import MOVES, PRODUCTS, REACH, SUMS, Conduct
from msprobe_builder.verdict.model.elements import STEEPEST, of_smallest
from msprobe_builder.verdict.model.judged_rows import JudgedRows
from msprobe_builder.verdict.model.masked import masked_rows
from msprobe_builder.verdict.model.observations import WORST, Observations
from msprobe_builder.verdict.model.products import CLIP
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
Float = NDArray[np.float64]

_FLIPPED = 2.0  # an element that has the other sign is off by twice its size
A_FLIP = 0.01  # expected number of elements behind a kink from which on one may be
_HIDDEN_SIZE = 1.0  # of what a mask leaves the largest is known alone, which may be nothing
# What a mask value that rounds by more than one leaves of the numbers behind it is anything: a row
# in a hundred that is hidden as a whole is then another one.
_HIDDEN_ROWS = 0.1
_ALL_ONE_WAY = 3.0  # errors of factors are those of all that is multiplied behind them


class Amounts:
    """Looks at errors again and again; what is the same each time is worked out once.

    Of each kind of call the outputs that it concerns, and the inputs that these ask for.
    """

    def __init__(
        self, runs: Runs, rows: JudgedRows, seen: Observations, does: Conduct, noise: Float
    ) -> None:
        inputs, out = rows.inputs, rows.outputs
        self._inputs, self._size = inputs, len(runs.npu.tree)
        self._at = at = runs.npu.table.node[inputs]
        self._node = node = runs.npu.table.node[out]
        self._rms, self._norm, self._elements = seen.rms[out], seen.norm[out], seen.elements[out]
        self._discrete = runs.discrete[out]
        kind, forward = does.kind, ~runs.backward
        averages = does.averages  # whose gradient is the same for each that went in
        is_sum = (kind == SUMS) | (kind == MOVES)
        is_bounded = forward & does.bounded
        around = does.normalises & (kind != REACH)
        self._sums = np.flatnonzero((is_sum & (forward | ~averages))[node])
        self._bounded = np.flatnonzero(is_bounded[node])
        # Of how many elements a slope of nothing keeps errors away lies between none and all
        # that the largest one leaves possible.
        self._left = np.sqrt(self._rms * seen.peak[out])[self._bounded]
        self._means = np.flatnonzero((forward & averages)[node])
        self._added = np.flatnonzero((does.adds_up & ~averages)[node])
        self._multiplied = np.flatnonzero(does.multiplies[node])
        self._reached = np.flatnonzero(((kind == REACH) & ~(forward & does.exponential))[node])
        self._exponential = np.flatnonzero((forward & does.exponential)[node])
        self._near_zero = np.flatnonzero(does.near_zero[node])
        self._products = np.flatnonzero((forward & (kind == PRODUCTS))[node])
        self._scaled = np.flatnonzero((forward & does.scales)[node])
        self._centred = np.flatnonzero(around[node])
        self._stepping = np.flatnonzero(self._discrete | does.breaks[node])
        self._turned = np.flatnonzero(does.turns[node])
        self._stretched = np.flatnonzero((forward & (does.steep > 1))[node])
        self._cancelled, self._uneven = (
            rows.cancelled[self._products],
            rows.uneven[self._scaled],
        )
        with np.errstate(all="ignore"):
            flat = np.nan_to_num(1 - (seen.mean[inputs] / seen.rms[inputs]) ** 2, nan=1.0)
            self._spread = _of_calls(around, at, np.sqrt(np.clip(flat, 1 / CLIP**2, 1)))
            del flat
            self._lengths = _of_calls(is_sum | averages | is_bounded, at, _finite(seen.rms[inputs]))
            self._norms = _of_calls(does.adds_up, at, _finite(seen.norm[inputs]))
            # Of numbers that are joined one that is small beside the others weighs little; of
            # tensors rows may be brought to one length behind.
            vague = np.zeros(self._size, dtype=bool)
            vague[at[~(np.isfinite(seen.rms[inputs]) & (seen.elements[inputs] == 1))]] = True
            joins = forward & runs.npu.calls.are(questions.joins)
            self._joined = np.flatnonzero((joins & ~vague)[node])
            is_far = (kind == REACH) | does.near_zero
            self._peaks = _of_calls(is_far, at, _finite(seen.peak[inputs]))
            # Of exponentials the largest tell, which nothing below zero makes.
            highest = runs.bench.table.statistics[0, runs.other[inputs]]
            alone = runs.npu.table.statistics[0, inputs]
            highest = _finite(np.where(runs.other[inputs] >= 0, highest, alone))
            highest = np.fmax(_finite(seen.rms[inputs]), highest)
            masked = masked_rows(runs.npu.table.statistics[:, inputs])
            highest[masked] = np.fmax(highest[masked], _HIDDEN_SIZE)
            self._hidden = _of_hidden_rows(runs, inputs, noise[at])
            self._heights = _of_calls(forward & does.exponential, at, highest)
            most = largest(seen.elements[inputs], at, self._size)[node]
            self._share = np.sqrt(self._elements / most)[self._means]
            self._many = np.minimum(np.sqrt(most), STEEPEST)[self._multiplied]
            self._one = (_FLIPPED / np.sqrt(self._elements))[self._stepping]
        steep = _of_calls(does.steep > 1, at, rows.steep[inputs])
        smallest = of_smallest(runs, inputs[steep.place])
        smallest[rows.above[inputs[steep.place]]] = 0.0
        steepest, least = (
            largest(one, steep.node, self._size)[node[self._stretched]]
            for one in (steep.weight, smallest)
        )
        self._steepest, self._least = np.fmax(steepest, 1.0), least

    def of(self, latent: Float) -> Float:
        """By output what its call makes of ``latent``, the errors of all rows."""
        given = known = np.nan_to_num(latent[self._inputs])
        size, node = self._size, self._node
        rms, norm = self._rms, self._norm
        with np.errstate(all="ignore"):
            relative = np.minimum(_together(known, self._at, size), WORST)[node]
            absolute, whole = (
                _together(known[one.place] * one.weight, one.node, size)
                for one in (self._lengths, self._norms)
            )
            reach = largest(known[self._peaks.place] * self._peaks.weight, self._peaks.node, size)
            centre = known[self._spread.place] / self._spread.weight
            centre = largest(centre, self._spread.node, size)
            far = np.fmax(relative[self._near_zero], reach[node[self._near_zero]])
            stretched = relative[self._stretched] * self._steepest
            told = [
                (self._sums, absolute[node[self._sums]] / rms[self._sums]),
                (self._bounded, absolute[node[self._bounded]] / self._left),
                (self._added, whole[node[self._added]] / norm[self._added]),
                (self._means, self._share * absolute[node[self._means]] / rms[self._means]),
                (self._multiplied, _ALL_ONE_WAY * relative[self._multiplied] * self._many),
                (self._reached, np.fmax(relative[self._reached], reach[node[self._reached]])),
                (self._near_zero, far / rms[self._near_zero]),
                (self._products, relative[self._products] * self._cancelled),
                (self._scaled, relative[self._scaled] * self._uneven),
                (self._centred, centre[node[self._centred]]),
                *self._steps(relative),
                (self._stretched, np.fmax(stretched, self._least)),
            ]
            amount = relative.copy()
            for where, least in told:
                least = np.clip(np.nan_to_num(least), 0, WORST)
                amount[where] = np.fmax(amount[where], least)
            weighed = absolute[node[self._joined]] / rms[self._joined]
            known = np.isfinite(weighed)
            amount[self._joined[known]] = np.clip(weighed[known], 0, WORST)
            high = given[self._heights.place] * self._heights.weight
            high = np.fmax(high, self._hidden[self._heights.place])
            high = largest(high, self._heights.node, size)[node[self._exponential]]
            amount[self._exponential] = np.minimum(high, WORST)
        return amount

    def _steps(self, relative: Float) -> list[tuple[Int, Float]]:
        """Outputs of which an element may be another one altogether, and what that makes."""
        where, off = self._stepping, relative[self._stepping]
        discrete = self._discrete[where]
        chooses = discrete & (off * self._elements[where] > A_FLIP)
        # What jumps does so at zero, where many elements may stand; what chooses seldom is so near.
        jumps = ~discrete & (off > 0)
        some = chooses | jumps
        edge = where[jumps & (self._norm[where] == 0)]  # from the edge of a step
        turned = self._turned[relative[self._turned] > 0]
        return [
            (where[some], np.fmax(np.sqrt(off), self._one)[some]),
            (edge, np.full(len(edge), WORST)),
            (turned, np.ones(len(turned))),
        ]


def _of_hidden_rows(runs: Runs, rows: Int, noise: Float) -> Float:
    """What numbers behind a mask value are off by, which are told where nothing is beside them.

    That rounds by more than they differ by on one side alone, or is itself off by noise.
    """
    statistics = runs.npu.table.statistics[:, rows]
    lowest = np.where(masked_rows(statistics), np.abs(statistics[1]), 0.0)
    other = np.where(runs.coarse[rows] != runs.fine[rows], runs.coarse[rows], noise)
    off = np.where(runs.fine[rows] * lowest < 1, other * lowest, 0.0)
    return np.asarray(_HIDDEN_ROWS * np.minimum(off, 1.0))


class _OfCalls(NamedTuple):
    """Inputs of calls of a kind: their places among all inputs, nodes, and what weighs them."""

    place: Int
    node: Int
    weight: Float


def _of_calls(asks: Bool, at: Int, weight: Float) -> _OfCalls:
    """Those of nodes that ask for them; ``at`` and ``weight`` are of all inputs."""
    place = np.flatnonzero(asks[at])
    return _OfCalls(place, at[place], weight[place])


def largest(values: Float, at: Int, size: int) -> Float:
    """By node the largest of what it is given, 0 without."""
    found = np.zeros(size)
    np.maximum.at(found, at, np.nan_to_num(values))
    return found


def _together(values: Float, at: Int, size: int) -> Float:
    """By node the root of the sum of squares of what it is given."""
    return np.sqrt(np.bincount(at, values**2, size))


def _finite(column: Float) -> Float:
    """What is infinite throughout is exact, and nothing is known of what is not known."""
    column[~np.isfinite(column)] = 0.0
    return column
