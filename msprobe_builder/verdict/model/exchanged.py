"""Calls that came in another order: what one is given, or puts out, another one has there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.part import inputs_of
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.clue import Clue
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]

_ALIKE = 2.0**-6  # of values that one side has in half precision
_SMALL = 1e-3  # of the largest of a tensor's statistics
_NEARER = 0.5  # of how far it is from its partner, what an exchanged one is away at most
_OF_GIVEN = (Cause.EXTERNAL, Cause.WIRING, Cause.BETWEEN)  # of what calls are given
_MOST = 20_000  # rows of one operator and size that are looked at


def exchanged(runs: Runs, found: list[Clue], *, backward: bool) -> set[Clue]:
    """Those that another pairing of calls of one operator explains; ``backward`` gradients too."""
    is_api, node = runs.npu.calls.is_api, runs.npu.table.node
    return {
        one
        for one in found
        if one.cause in _OF_GIVEN
        and (backward or not runs.backward[node[one.row]])
        and is_api[node[one.row]]
        and _is_exchanged(runs, one.row)
    }


def is_of_unpaired(runs: Runs, clue: Clue) -> bool:
    """Whether a call without a counterpart does here what this one does there, and one there.

    Of calls that look alike, and of which one side makes more, the wrong two were compared.
    """
    is_argument = clue.cause is Cause.ARGUMENT and clue.row >= 0
    return is_argument and _is_exchanged(runs, clue.row, alone=True)


def _is_exchanged(runs: Runs, row: int, *, alone: bool = False) -> bool:
    """Whether another call has here what this one has there, and the other way round.

    One that has no counterpart where ``alone`` ones are asked for.
    """
    other = int(runs.other[row])
    if other < 0:
        return False
    debug = _like(runs.npu.table, runs.bench.table, runs, row, other, 0)
    reference = _like(runs.bench.table, runs.npu.table, runs, other, row, 1)
    if alone:
        debug, reference = (
            debug[runs.bench_partner[debug] < 0],
            reference[runs.partner[reference] < 0],
        )
    return bool(len(debug) and len(reference))


def _like(
    table: ParameterTable, elsewhere: ParameterTable, runs: Runs, row: int, but: int, side: int
) -> Int:
    """Calls of the other side, of the same operator, that have all that the call of a row has.

    One that has this tensor alone is another call: zeros and states of a recurrence are many's.
    """
    calls = (runs.npu, runs.bench)[1 - side].calls
    operator = (runs.npu, runs.bench)[side].calls.operators[
        int((runs.npu, runs.bench)[side].calls.stem[table.node[row]])
    ]
    nodes = elsewhere.node[_near(table, elsewhere, row, but)]
    for given in inputs_of(table, int(table.node[row])).tolist():
        if given != row:
            nodes = nodes[np.isin(nodes, elsewhere.node[_near(table, elsewhere, given, -1)])]
    alike = [calls.operators[int(calls.stem[node])].name == operator.name for node in nodes]
    return np.asarray(nodes[np.array(alike, dtype=bool)])


def _near(table: ParameterTable, elsewhere: ParameterTable, row: int, but: int) -> Int:
    """Rows of the other side, in the same place of a call, that hold about the same numbers.

    And nearer ones than row ``but``, the partner, if any: of what repeats, each has its partner's.
    """
    rows = np.flatnonzero(
        (elsewhere.section == table.section[row])
        & (elsewhere.position == table.position[row])
        & (elsewhere.shape_id == table.shape_id[row])
        & elsewhere.is_tensor
    )[:_MOST]
    rows = rows[rows != but]
    own = table.statistics[:, row, None]
    if not np.isfinite(own).all():
        return np.asarray(rows[:0])
    size = np.abs(own).max()
    apart = np.abs(elsewhere.statistics[:, rows] - own)
    near = (apart <= _ALIKE * np.abs(own) + _SMALL * size).all(axis=0)
    if but >= 0:
        away = np.abs(elsewhere.statistics[:, but, None] - own)
        near &= apart.max(axis=0) <= _NEARER * away.max()
    return np.asarray(rows[near])
