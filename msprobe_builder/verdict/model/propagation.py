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
from msprobe_builder.verdict.model.amounts import Amounts
from msprobe_builder.verdict.model.conduct import PRODUCTS, Conduct
from msprobe_builder.verdict.model.gradients import OF_MODULES, Gradients
from msprobe_builder.verdict.model.judged_rows import JudgedRows
from msprobe_builder.verdict.model.observations import ROUNDED, WORST, Observations
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
Float = NDArray[np.float64]

_SWEEPS, _SETTLED = 16, 0.01
# Of an expected error, the least that is taken for there, by how many numbers were read of it.
_UNSEEN = np.array([1.0, 0.6, 0.6, 0.3, 0.3, 0.0])
_CHOSEN = 0.3  # what a row in ten that was chosen otherwise makes a tensor differ by
_OF_STEPS = 2.0  # a recurrent layer rounds again in each step
_LITTLE_OF_IT = 10.0  # times less than a tensor is off by may show in its numbers


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
    rows = JudgedRows.of(runs, seen, does)
    out = rows.outputs
    latent = np.where(runs.discrete & (seen.differs), 1.0, np.minimum(seen.size, WORST))
    latent = np.append(latent, np.nan)  # the last is that of no row
    given, put_out = _Given(runs, rows, seen), _PutOut(runs, rows, seen, does.free)
    outputs = _Outputs(runs, rows, seen, does, noise)
    followed = chosen[out] & np.isnan(seen.exact[out])  # of what was measured nothing hides
    by_choice = _by_choice(runs, seen, chosen & np.isnan(seen.exact))
    before = np.empty_like(latent)
    for _ in range(_SWEEPS):
        np.copyto(before, latent)
        given.take_in(latent)
        expected = outputs.expected(latent)
        expected[followed & (expected < by_choice)] = by_choice
        put_out.settle(expected, latent)
        if _is_settled(before, latent):
            break
    latent = latent[:-1]
    told = np.full(len(latent), np.nan)
    told[out] = expected
    lacking = runs.npu.table.node[rows.inputs[np.isnan(latent[rows.inputs])]]
    is_whole = np.ones(len(runs.npu.tree), dtype=bool)
    is_whole[lacking] = False
    return Expected(latent, told, is_whole[runs.npu.table.node])


def _is_settled(before: Float, latent: Float) -> bool:
    """Whether none has changed by more than a hundredth."""
    rows = np.flatnonzero(before != latent)
    with np.errstate(invalid="ignore"):
        settled = np.abs(before[rows] - latent[rows]) <= _SETTLED * np.abs(latent[rows])
    return bool((settled | (np.isnan(before[rows]) & np.isnan(latent[rows]))).all())


def _by_choice(runs: Runs, seen: Observations, chosen: Bool) -> float:
    """What tensors differ by that follow from another choice, as most of them show it."""
    sizes = seen.size[chosen & runs.rows(Section.OUTPUT) & ~runs.discrete]
    sizes = sizes[~np.isnan(sizes)]
    shown = float(np.quantile(sizes, 0.25)) if len(sizes) else _CHOSEN
    return min(_CHOSEN, _LITTLE_OF_IT * shown)


class _Given:
    """What calls are given: what was read, and a share of what their makers' outputs are off by."""

    def __init__(self, runs: Runs, rows: JudgedRows, seen: Observations) -> None:
        self._inputs = inputs = rows.inputs
        self._made, self._share = runs.maker[inputs], _UNSEEN[rows.unseen[inputs]]
        self._unknown = np.isnan(seen.size[inputs])
        self._read = np.fmax(np.minimum(seen.size[inputs], WORST), rows.hidden)
        self._read[runs.discrete[inputs] & seen.differs[inputs]] = 1.0
        self._remains = inputs[seen.remains[inputs]]

    def take_in(self, latent: Float) -> None:
        """Fill in what is given, of what was put out."""
        of_maker = latent[self._made]
        unseen = np.where(of_maker < 1, self._share * of_maker, 0.0)
        read = np.fmax(self._read, unseen)
        latent[self._inputs] = np.where(self._unknown, of_maker, read)
        latent[self._remains] = 1.0


class _PutOut:
    """What outputs are off by: what was read, and a share of what was expected of each."""

    def __init__(self, runs: Runs, rows: JudgedRows, seen: Observations, free: Bool) -> None:
        self._out = out = rows.outputs
        is_free = free[runs.npu.table.node[out]]
        self._share = np.where(is_free, 0.0, _UNSEEN[rows.unseen[out]])
        self._unknown = np.isnan(seen.size[out])
        self._read = np.where(is_free, seen.size[out], np.minimum(seen.size[out], WORST))
        self._other = out[runs.discrete[out] & seen.differs[out]]
        self._handed = handed = rows.handed_on
        self._made, self._handed_read = runs.maker[handed], seen.size[handed]

    def settle(self, expected: Float, latent: Float) -> None:
        """Fill in what is put out, of what was ``expected``, and what modules hand on."""
        settled = np.fmax(self._read, self._share * np.minimum(expected, 1.0))
        latent[self._out] = np.where(self._unknown, expected, settled)
        read = self._handed_read
        latent[self._handed] = np.where(np.isnan(read), latent[self._made], read)
        latent[self._other] = 1.0


def _own_rounding(runs: Runs, rows: JudgedRows, does: Conduct, noise: Float) -> Float:
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
    recurrent = runs.npu.calls.are(lambda one: "recurrent" in one.traits)
    result[recurrent[node]] *= _OF_STEPS
    return np.where(runs.discrete[out], 0.0, result)


class _Outputs:
    """What outputs are expected to be off by, of the errors of what went in."""

    def __init__(
        self, runs: Runs, rows: JudgedRows, seen: Observations, does: Conduct, noise: Float
    ) -> None:
        table, self._own = runs.npu.table, _own_rounding(runs, rows, does, noise)
        node = table.node[rows.outputs]
        of_many = runs.npu.calls.is_module & ~does.is_known
        lacking = rows.inputs[np.isnan(seen.norm[rows.inputs]) & (seen.size[rows.inputs] >= 0)]
        of_many[table.node[lacking]] = True  # complex numbers, of which nobody records a norm
        self._of_many = np.flatnonzero((of_many | does.composite)[node])
        self._gain = does.gain[node]
        self._amounts = Amounts(runs, rows, seen, does, noise)
        self._gradients = Gradients(runs, rows, seen, does, self._own)

    def expected(self, latent: Float) -> Float:
        """By output, of the errors of all rows."""
        amount = self._amounts.of(latent)
        amount[self._of_many] *= OF_MODULES
        result = np.hypot(self._gain * amount, self._own)
        self._gradients.add_to(result, latent)
        return np.minimum(result, WORST)


_DRAWS = 3.0  # times: two draws of one error differ


def beside_noise(runs: Runs, expected: Expected, noise: Float) -> Expected:
    """The same, at least what a second run of the reference differs by, by row of its table."""
    rows = np.flatnonzero(runs.other >= 0)
    told, latent = expected.told.copy(), expected.latent.copy()
    own = noise[runs.other[rows]]
    told[rows] = np.where(np.isnan(told[rows]), np.nan, np.fmax(told[rows], _DRAWS * own))
    latent[rows] = np.fmax(latent[rows], own)
    return replace(expected, told=told, latent=latent)
