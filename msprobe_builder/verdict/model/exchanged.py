"""Calls that came in another order: what one is given, or puts out, another one has there."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.part import Part, inputs_of
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.clue import Clue
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_ALIKE = 2.0**-6  # of values that one side has in half precision
_SMALL = 1e-3  # of the largest of a tensor's statistics
_NEARER = 0.5  # of how far it is from its partner, what an exchanged one is away at most
_OF_GIVEN = (Cause.EXTERNAL, Cause.WIRING, Cause.BETWEEN)  # of what calls are given
_MOST = 20_000  # rows of one operator and size that are looked at


class Exchanges:
    """Which clues of a comparison another pairing of calls of one operator explains."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._sides = (
            (runs.npu, runs.partner),
            (runs.bench, runs.bench_partner),
        )
        self._known: dict[tuple[int, str, bool], Bool] = {}

    def of_paired(self, found: list[Clue], *, backward: bool) -> set[Clue]:
        """Those of what calls are given; ``backward`` gradients too."""
        runs = self._runs
        is_api, node = runs.npu.calls.is_api, runs.npu.table.node
        return {
            one
            for one in found
            if one.cause in _OF_GIVEN
            and (backward or not runs.backward[node[one.row]])
            and is_api[node[one.row]]
            and self._is_exchanged(one.row)
        }

    def is_of_unpaired(self, clue: Clue) -> bool:
        """Whether a call without a counterpart does here what this one does there, and one there.

        Of calls that look alike, and of which one side makes more, the wrong two were compared.
        """
        is_argument = clue.cause is Cause.ARGUMENT and clue.row >= 0
        return is_argument and self._is_exchanged(clue.row, alone=True)

    def _is_exchanged(self, row: int, *, alone: bool = False) -> bool:
        """Whether another call has here what this one has there, and the other way round.

        One that has no counterpart where ``alone`` ones are asked for.
        """
        other = int(self._runs.other[row])
        if other < 0:
            return False
        asked = [self._asked(side, at, alone) for side, at in ((0, row), (1, other))]
        if not all(one.any() for one in asked):
            return False  # most often, and looked at for nothing but their operators
        return all(
            self._is_like(side, at, but, nodes)
            for side, at, but, nodes in zip((0, 1), (row, other), (other, row), asked, strict=True)
        )

    def _asked(self, side: int, row: int, alone: bool) -> Bool:
        """Nodes of the other side by the operator of the call of a row."""
        part, (elsewhere, partner) = self._sides[side][0], self._sides[1 - side]
        name = part.calls.operators[int(part.calls.stem[part.table.node[row]])].name
        if (side, name, alone) not in self._known:
            nodes = elsewhere.calls.do(lambda one: one.name == name)
            self._known[side, name, alone] = nodes & (partner < 0) if alone else nodes
        return self._known[side, name, alone]

    def _is_like(self, side: int, row: int, but: int, asked: Bool) -> bool:
        """Whether one of the ``asked`` calls of the other side has all that the call of a row has.

        One that has this tensor alone is another call: zeros and states of a recurrence are many's.
        """
        table = self._sides[side][0].table
        nodes = self._near(side, row, but)
        nodes = nodes[asked[nodes]]
        for given in inputs_of(table, int(table.node[row])).tolist():
            if given != row and len(nodes):
                nodes = nodes[np.isin(nodes, self._near(side, given, -1))]
        return bool(len(nodes))

    def _near(self, side: int, row: int, but: int) -> Int:
        """Calls of the other side that hold about the same numbers in the same place.

        And nearer ones than row ``but``, the partner, if any: of what repeats, each has its
        partner's.
        """
        table, elsewhere = (self._sides[one][0].table for one in (side, 1 - side))
        places = (self._places_here, self._places_there)[1 - side]
        rows = places.rows(table, row)[:_MOST]
        rows = rows[rows != but]
        own = table.statistics[:, row, None]
        if not np.isfinite(own).all():
            return np.zeros(0, dtype=np.int64)
        size = np.abs(own).max()
        apart = np.abs(elsewhere.statistics[:, rows] - own)
        near = (apart <= _ALIKE * np.abs(own) + _SMALL * size).all(axis=0)
        if but >= 0:
            away = np.abs(elsewhere.statistics[:, but, None] - own)
            near &= apart.max(axis=0) < _NEARER * away.max()  # of equal numbers none is nearer
        return np.asarray(elsewhere.node[rows[near]])

    @cached_property
    def _places_here(self) -> _Places:
        return _Places(self._runs.npu)

    @cached_property
    def _places_there(self) -> _Places:
        return _Places(self._runs.bench)


class _Places:
    """The tensors of a side by section, position in it, and shape."""

    def __init__(self, part: Part) -> None:
        table = part.table
        self._shapes = int(table.shape_id.max(initial=0)) + 2
        self._positions = int(table.position.max(initial=0)) + 1
        every = np.flatnonzero(table.is_tensor)
        key = self._keys(table, every)
        order = np.argsort(key, kind="stable")
        self._rows, self._key = every[order], key[order]

    def rows(self, table: ParameterTable, row: int) -> Int:
        """Those that stand where a row of a table does, in the order of the run."""
        if table.position[row] >= self._positions or table.shape_id[row] + 2 > self._shapes:
            return self._rows[:0]
        key = int(self._keys(table, np.array([row]))[0])
        return self._rows[slice(*np.searchsorted(self._key, [key, key + 1]).tolist())]

    def _keys(self, table: ParameterTable, rows: Int) -> Int:
        place = table.section[rows].astype(np.int64) * self._positions + table.position[rows]
        return np.asarray(place * self._shapes + table.shape_id[rows] + 1)
