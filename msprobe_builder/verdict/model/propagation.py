"""The error that is expected of each tensor, from those of what it was made of.

What a call is given is off by what was read of it, and by a share at least of what was expected of
it, because readings agree by chance. That share makes the whole a contraction: a few sweeps over
all calls at once settle it, whatever their order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Section
from msprobe_builder.verdict.model.conduct import MOVES, PRODUCTS, REACH, SUMS, Conduct
from msprobe_builder.verdict.model.elements import STEEPEST, of_few, of_smallest, steepness
from msprobe_builder.verdict.model.observations import COMMON, ROUNDED, WORST, Observations
from msprobe_builder.verdict.model.products import (
    CLIP,
    cancelling,
    cancelling_back,
    factors_of,
    uneven,
)
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
Float = NDArray[np.float64]

_NORM = 3  # of the statistics
_SWEEPS = 16
# Of an expected error, the least that is taken for there, by how many numbers were read of it.
_UNSEEN = np.array([1.0, 0.6, 0.6, 0.3, 0.3])
_FLIPPED = 2.0  # an element that has the other sign is off by twice its size
_KEPT = 3.0  # of the error of what the forward call kept, what a gradient shows
A_FLIP = 0.01  # expected number of elements behind a kink from which on one may be
_CHOSEN = 0.3  # what a row in ten that was chosen otherwise makes a tensor differ by
_LITTLE_OF_IT = 10.0  # times less than a tensor is off by may show in its numbers
_ALL_ONE_WAY = 3.0  # errors of factors are those of all that is multiplied behind them
_ROUNDED_ONCE = 12**-0.5  # of a rounding unit, what an even spread over one is off by
_OF_MODULES = 4.0  # a module whose class tells no operator makes many calls


@dataclass(frozen=True)
class Expected:
    """Columns by npu row: ``latent`` what a tensor is off by, ``told`` what was expected of it.

    NaN where nobody knows. ``is_whole`` says of outputs that all that went in is known.
    """

    latent: Float
    told: Float
    is_whole: Bool


def propagate(
    runs: Runs, seen: Observations, does: Conduct, noise: Float, chosen: Bool
) -> Expected:
    """Errors of all rows; ``noise`` is what calls add, by node.

    ``chosen`` are rows that follow from another choice.
    """
    rows = _Rows.of(runs, seen)
    table = runs.npu.table
    latent = np.where(runs.discrete & (seen.differs), 1.0, np.minimum(seen.size, WORST))
    told = np.full(len(table), np.nan)
    unknown = np.isnan(seen.size)
    own = _own_rounding(runs, rows, does, noise)
    is_whole = np.ones(len(table), dtype=bool)
    chosen = chosen & np.isnan(seen.exact)  # of what was measured nothing hides
    by_choice = _by_choice(runs, seen, chosen)
    for _ in range(_SWEEPS):
        before = latent.copy()
        _take_in(runs, rows, seen, unknown, latent)
        del told  # what comes next takes the most room
        told, is_whole = _put_out(runs, rows, seen, does, latent, own)
        told[chosen] = np.where(np.isnan(told[chosen]), np.nan, np.fmax(told[chosen], by_choice))
        _settle(runs, rows, seen, does.free, unknown, told, latent)
        if np.allclose(before, latent, 0.01, 0.0, equal_nan=True):
            break
    return Expected(latent, told, is_whole)


def _settle(
    runs: Runs,
    rows: _Rows,
    seen: Observations,
    free: Bool,
    unknown: Bool,
    told: Float,
    latent: Float,
) -> None:
    """What outputs are off by: what was read, and a share of what was expected."""
    out = rows.outputs
    expected = told[out]
    least = _UNSEEN[rows.unseen[out]] * np.minimum(expected, 1.0)
    settled = np.fmax(np.minimum(seen.size[out], WORST), least)
    settled = np.where(free[runs.npu.table.node[out]], seen.size[out], settled)
    latent[out] = np.where(unknown[out], expected, settled)
    handed = rows.handed_on
    made = runs.maker[handed]
    latent[handed] = np.where(
        unknown[handed], np.where(made >= 0, latent[made], np.nan), seen.size[handed]
    )
    latent[out[runs.discrete[out] & (seen.differs[out])]] = 1.0


def _by_choice(runs: Runs, seen: Observations, chosen: Bool) -> float:
    """What tensors differ by that follow from another choice, as most of them show it."""
    sizes = seen.size[chosen & runs.rows(Section.OUTPUT) & ~runs.discrete]
    sizes = sizes[~np.isnan(sizes)]
    shown = float(np.quantile(sizes, 0.25)) if len(sizes) else _CHOSEN
    return min(_CHOSEN, _LITTLE_OF_IT * shown)


@dataclass(frozen=True)
class _Rows:
    """Rows by what they are to the calls that are judged."""

    inputs: Int
    outputs: Int  # of calls, and of modules in which nothing was recorded
    handed_on: Int  # outputs of modules that calls inside have put out
    unseen: NDArray[np.uint8]  # by row, how many numbers deny an expected error, see _UNSEEN
    steep: Float  # by row, how many times smaller than the others its smallest element is
    least: Float  # by input, what its smallest element is off by, as a fraction of that element
    cancelled: Float  # by output of a product, the length of its terms over its own
    uneven: Float  # by output of a product by elements, the size of unrelated factors over its own
    hidden: Float  # by input, what it is off by at least, whatever is read of it

    @staticmethod
    def of(runs: Runs, seen: Observations) -> _Rows:
        calls, table = runs.npu.calls, runs.npu.table
        judged = calls.is_api | (calls.is_module & ~runs.open)
        given = runs.rows(Section.INPUT) | (runs.rows(Section.PARAMETERS) & ~runs.open[table.node])
        given &= judged[table.node] | calls.is_module[table.node]
        put_out = runs.rows(Section.OUTPUT)
        inputs = np.flatnonzero(given)
        cancelled = cancelling(seen, inputs, table.node, len(runs.npu.tree))
        factors = factors_of(runs, inputs, np.flatnonzero(put_out), seen)
        cancelled *= cancelling_back(runs, factors, seen)
        outputs = np.flatnonzero(put_out & judged[table.node])
        return _Rows(
            inputs,
            outputs,
            np.flatnonzero(put_out & runs.open[table.node]),
            np.where(np.isnan(seen.exact), (~np.isnan(seen.moved)).sum(axis=0, dtype=np.uint8), 4),
            steepness(seen),
            of_smallest(runs)[inputs],
            cancelled[outputs],
            uneven(runs, factors, seen)[outputs],
            np.fmax(of_few(runs, seen), _held(runs, seen))[inputs],
        )


def _held(runs: Runs, seen: Observations) -> Float:
    """By row what a tensor that one side holds in fewer digits is off by, whatever is read of it.

    Numbers that agree on both sides had no more digits there.
    """
    is_rounded = (runs.coarse != runs.fine) & ~runs.discrete & (seen.size > 0)
    is_rounded &= np.isnan(seen.exact)
    return np.where(is_rounded, _ROUNDED_ONCE * runs.coarse, 0.0)


def _take_in(runs: Runs, rows: _Rows, seen: Observations, unknown: Bool, latent: Float) -> None:
    """What calls are given: what was read, and a share of what their makers' outputs are off by."""
    made = runs.maker[rows.inputs]
    of_maker = np.where(made >= 0, latent[made], np.nan)
    unseen = np.where(of_maker < 1, _UNSEEN[rows.unseen[rows.inputs]] * of_maker, 0.0)
    read = np.fmax(np.minimum(seen.size[rows.inputs], WORST), np.nan_to_num(unseen))
    read = np.fmax(read, rows.hidden)
    other = runs.discrete[rows.inputs] & (seen.differs[rows.inputs])
    read = np.where(other, 1.0, read)
    latent[rows.inputs] = np.where(unknown[rows.inputs], of_maker, read)
    latent[rows.inputs[seen.remains[rows.inputs]]] = 1.0


def _own_rounding(runs: Runs, rows: _Rows, does: Conduct, noise: Float) -> Float:
    """What each output is off by though what went in agrees."""
    table, out = runs.npu.table, rows.outputs
    unit = runs.coarse if runs.is_mixed else runs.fine
    floats = rows.inputs[~runs.discrete[rows.inputs]]
    of_inputs = np.zeros(len(runs.npu.tree))
    np.maximum.at(of_inputs, table.node[floats], unit[floats])
    node = table.node[out]
    result = unit[out]
    else_given = np.minimum(result, np.where(of_inputs[node] > 0, of_inputs[node], result))
    if not runs.is_mixed:  # a call of one side alone rounds for itself: that is what it does
        result = np.where(runs.other[out] < 0, else_given, result)
    if runs.is_mixed:  # products take their operands in the coarser type on one side
        inner = (does.kind[node] == PRODUCTS) | runs.npu.calls.is_module[node] | runs.backward[node]
        coarsest = float(runs.coarse[runs.other >= 0].max(initial=0.0))
        result = np.where(does.composite[node], coarsest, result)
        result = np.where(inner, np.maximum(result, of_inputs[node]), result)
    result = np.fmax(ROUNDED * result, noise[node])
    return np.where(runs.discrete[out], 0.0, result)


def _put_out(
    runs: Runs, rows: _Rows, seen: Observations, does: Conduct, latent: Float, own: Float
) -> tuple[Float, Bool]:
    """What is expected of outputs, and where all that went in is known."""
    table, out = runs.npu.table, rows.outputs
    node, at = table.node[out], table.node[rows.inputs]
    amount = _amounts(runs, rows, seen, does, latent)
    of_many = runs.npu.calls.is_module & ~does.is_known
    lacking = rows.inputs[np.isnan(seen.norm[rows.inputs]) & (seen.size[rows.inputs] >= 0)]
    of_many[table.node[lacking]] = True  # complex numbers, of which nobody records a norm
    amount[(of_many | does.composite)[node]] *= _OF_MODULES
    result = np.hypot(does.gain[node] * amount, own)
    _of_gradients(runs, rows, seen, does, latent, own, result)
    full = np.full(len(table), np.nan)
    full[out] = np.minimum(result, WORST)
    unknown = np.bincount(at, np.isnan(latent[rows.inputs]), len(runs.npu.tree)) > 0
    return full, np.asarray(~unknown[table.node])


def _amounts(runs: Runs, rows: _Rows, seen: Observations, does: Conduct, latent: Float) -> Float:
    """What calls make of the errors of what they are given, by output."""
    table, size = runs.npu.table, len(runs.npu.tree)
    inputs, out = rows.inputs, rows.outputs
    at, node = table.node[inputs], table.node[out]
    known = np.nan_to_num(latent[inputs])

    def total(values: Float) -> Float:
        return np.sqrt(np.bincount(at, np.nan_to_num(values) ** 2, size))

    def largest(values: Float, where: Int) -> Float:
        found = np.zeros(size)
        np.maximum.at(found, where, np.nan_to_num(values))
        return found

    def finite(column: Float) -> Float:
        """What is infinite throughout is exact."""
        given = column[inputs]
        given[np.isinf(given)] = 0.0
        return given

    relative = np.minimum(total(known), WORST)
    absolute, whole = total(known * finite(seen.rms)), total(known * finite(seen.norm))
    reach = largest(known * finite(seen.peak), at)
    with np.errstate(all="ignore"):
        flat = np.nan_to_num(1 - (seen.mean[inputs] / seen.rms[inputs]) ** 2, nan=1.0)
        around_mean = largest(known / np.sqrt(np.clip(flat, 1 / CLIP**2, 1)), at)
        amount = relative[node].copy()
        kind = does.kind[node]

        def at_least(where: Bool, other: Float) -> None:
            told = np.clip(np.nan_to_num(other[where]), 0, WORST)
            amount[where] = np.fmax(amount[where], told)

        forward = ~runs.backward[node]
        averages = does.averages[node]  # whose gradient is the same for each that went in
        is_sum = (kind == SUMS) | (kind == MOVES)
        at_least(is_sum & (forward | ~averages), absolute[node] / seen.rms[out])
        at_least(does.adds_up[node] & ~averages, whole[node] / seen.norm[out])
        share = np.sqrt(seen.elements[out] / largest(seen.elements[inputs], at)[node])
        at_least(forward & averages, share * absolute[node] / seen.rms[out])
        many = np.minimum(np.sqrt(largest(seen.elements[inputs], at)[node]), STEEPEST)
        at_least(does.multiplies[node], _ALL_ONE_WAY * relative[node] * many)
        at_least(kind == REACH, np.fmax(relative[node], reach[node]))
        at_least(does.near_zero[node], np.fmax(relative[node], reach[node]) / seen.rms[out])
        at_least(forward & (kind == PRODUCTS), relative[node] * rows.cancelled)
        at_least(forward & does.scales[node], relative[node] * rows.uneven)
        at_least(does.normalises[node] & (kind != REACH), around_mean[node])
        one = _FLIPPED / np.sqrt(seen.elements[out])
        likely = relative[node] * seen.elements[out] > A_FLIP
        chooses = runs.discrete[out] & likely
        # What jumps does so at zero, where many elements may stand; what chooses seldom is so near.
        jumps = does.breaks[node] & ~runs.discrete[out] & (relative[node] > 0)
        at_least(chooses | jumps, np.fmax(np.sqrt(relative[node]), one))
        at_least(jumps & (seen.norm[out] == 0), np.full(len(out), WORST))  # from the edge of a step
        at_least(does.turns[node] & (relative[node] > 0), np.ones(len(out)))
        steep, least = largest(rows.steep[inputs], at), largest(rows.least, at)
        stretched = np.fmax(relative[node] * np.fmax(steep[node], 1.0), least[node])
        at_least(forward & (does.steep[node] > 1), stretched)
    return amount


def _of_gradients(
    runs: Runs,
    rows: _Rows,
    seen: Observations,
    does: Conduct,
    latent: Float,
    own: Float,
    result: Float,
) -> None:
    """Add what gradients owe to the tensors that their forward calls kept."""
    table, size = runs.npu.table, len(runs.npu.tree)
    twin = runs.npu.calls.twin
    out = rows.outputs
    node = table.node[out]
    back = runs.backward[node] & (twin[node] >= 0)
    steep = _of_kept(runs, rows, seen, does, latent, back, result)
    products = back & (does.kind[node] == PRODUCTS)
    result[products] *= rows.cancelled[products]
    scaled = back & does.scales[node]
    result[scaled] *= rows.uneven[scaled]
    # A gradient that is reduced cancels: its error stands in proportion to what went in.
    given = rows.inputs[~runs.discrete[rows.inputs]]
    length, most, error_in = np.zeros(size), np.zeros(size), np.zeros(size)
    np.maximum.at(length, table.node[given], np.nan_to_num(seen.norm[given]))
    np.maximum.at(most, table.node[given], seen.elements[given])
    np.maximum.at(error_in, table.node[given], np.nan_to_num(latent[given]))
    with np.errstate(all="ignore"):
        longer = length[node] / seen.norm[out]
        one_way = np.sqrt(1 + COMMON**2 * most[node] / seen.elements[out])
    reduced = runs.backward[node] & (seen.elements[out] < most[node]) & np.isfinite(longer)
    result[reduced] = np.fmax(
        result, np.minimum(WORST, np.fmax(error_in[node], own) * longer * one_way)
    )[reduced]
    # Where nothing was left of it there, rounding may leave as much here.
    here = table.statistics[_NORM, out]
    left_over = (
        np.fmax(error_in[node], own) * length[node] * np.where(np.isfinite(one_way), one_way, 1.0)
    )
    is_left = runs.backward[node] & (seen.elements[out] < most[node]) & (seen.norm[out] == 0)
    result[is_left & (here <= left_over)] = WORST
    # A softmax takes the mean off, by what it weighs: y(g - sum(gy)), of which little may be left.
    size_of = np.zeros(size)
    put_out = rows.outputs[~runs.discrete[rows.outputs]]
    np.maximum.at(size_of, table.node[put_out], np.nan_to_num(seen.rms[put_out]))
    weighs = back & does.normalises[node] & (does.kind[node] == REACH)
    with np.errstate(all="ignore"):
        left = np.fmax(error_in[node], own) * longer * np.minimum(size_of[twin[node]], 1.0)
    result[weighs] = np.fmax(result, np.minimum(WORST, np.nan_to_num(left)))[weighs]
    # What is less than rounding of what many calls made it of is nothing but that.
    with np.errstate(all="ignore"):
        usual = np.nan_to_num(length / np.sqrt(most))[node]
        vanishes = back & does.composite[node] & (own * usual > seen.rms[out])
    result[vanishes] = WORST
    power = does.steep[node]
    steepness = np.where(
        power > 1,
        np.minimum(steep[twin[node]] ** power, STEEPEST),
        np.minimum(steep[twin[node]], 3.0),
    )
    result[back & (does.kind[node] <= SUMS)] *= steepness[back & (does.kind[node] <= SUMS)]


def _of_kept(
    runs: Runs,
    rows: _Rows,
    seen: Observations,
    does: Conduct,
    latent: Float,
    back: Bool,
    result: Float,
) -> Float:
    """Add what gradients owe to errors of what was kept; by node its least element."""
    table, twin, size = runs.npu.table, runs.npu.calls.twin, len(runs.npu.tree)
    every = np.flatnonzero(table.is_tensor & ~runs.backward[table.node])
    kept, steep = np.zeros(size), np.ones(size)
    np.maximum.at(kept, table.node[every], np.nan_to_num(latent[every]))
    np.maximum.at(steep, table.node[every], rows.steep[every])
    out, node = rows.outputs, table.node[rows.outputs]
    error = np.minimum(kept[twin[node]], WORST)
    flips = error * seen.elements[out]  # of elements whose density is about one where they turn
    flipped = np.where(
        flips > A_FLIP, np.fmax(np.sqrt(error), 1 / np.sqrt(seen.elements[out])), error
    )
    error = np.where(does.kinks[node] & (error < 1), flipped, error)
    kept_well = np.where(does.composite[node], _OF_MODULES, 1.0)
    result[back] = np.hypot(result, _KEPT * kept_well * error)[back]
    return steep


_DRAWS = 3.0  # times: two draws of one error differ


def beside_noise(runs: Runs, expected: Expected, noise: Float) -> Expected:
    """The same, at least what a second run of the reference differs by, by row of its table."""
    rows = np.flatnonzero(runs.other >= 0)
    told, latent = expected.told.copy(), expected.latent.copy()
    own = noise[runs.other[rows]]
    told[rows] = np.where(np.isnan(told[rows]), np.nan, np.fmax(told[rows], _DRAWS * own))
    latent[rows] = np.fmax(latent[rows], own)
    return replace(expected, told=told, latent=latent)
