"""Where two programs part and meet again: another formula for the same is no fault."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.floating import SINGLE
from msprobe_builder.graph.part import inputs_of, rows_of
from msprobe_builder.operators.operator import Kind
from msprobe_builder.operators.table import is_in_place
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.clue import ONE_SIDED, Clue, Evidence
from msprobe_builder.verdict.model.outputs import same_shapes
from msprobe_builder.verdict.model.outside import is_state
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_BY_CHANCE = 32.0  # times nearer a single number has to be
_SELDOM = 2.4  # times what is expected, which one in a thousand calls of correct runs exceeds
_AGREES = 4.0  # rounding units up to which outputs agree
_OF_SIZES = {Kind.MAKE, Kind.EMPTY, Kind.QUERY, Kind.DRAW}
_FURTHER = 3  # calls behind outputs that agree
_SHARING = {Kind.SHAPE, Kind.TRANSPOSE, Kind.CAST}  # may put out the very memory they are given
_HANDED_ON = 8  # calls behind one another that put out what they are given
_NEAR, _SEVERAL = 64, 8  # outputs
_LONGEST = 200  # calls on a way, beyond which nobody writes one formula


def is_of_other_sizes(runs: Runs, clue: Clue) -> bool:
    """Whether an operator with another argument is given tensors of other sizes: another call.

    In half precision too much agrees for that.
    """
    is_told = clue.cause is Cause.ARGUMENT and not clue.side and not runs.is_mixed
    return is_told and not same_shapes(runs, clue.node)


class Ways:
    """The ways from tensors that are off to outputs that agree."""

    def __init__(self, evidence: Evidence) -> None:
        runs, seen = evidence.runs, evidence.seen
        table = runs.npu.table
        self._runs, self._does, self._table = runs, evidence.does, table
        # One number, such as a loss, is about the same by chance.
        unit = np.where(seen.elements > 1, runs.in_use, np.fmax(SINGLE, runs.in_use / _BY_CHANCE))
        level = np.fmax(
            _AGREES * unit, np.fmax(_AGREES * evidence.noise[table.node], seen.resolution)
        )
        self._told = np.nan_to_num(evidence.expected.told)
        self._output = runs.rows(Section.OUTPUT)
        told = self._output & ~runs.discrete & (seen.norm > 0)
        self._size, self._level = seen.size, np.where(told, level, -1.0)
        forward = told & ~runs.backward[table.node] & (seen.size > 0)
        before = np.flatnonzero(forward & (not runs.is_mixed))
        self._before, self._sizes_before = table.node[before], seen.size[before]
        self._usual: dict[int, float] = {}  # by how many outputs stand before
        given = np.flatnonzero(runs.rows(Section.INPUT) & (runs.origin >= 0))
        order = np.argsort(runs.origin[given], kind="stable")
        self._by = table.node[given][order]
        self._first_user = _firsts(runs.origin[given], len(table))
        calls = runs.npu.calls
        self._is_call = calls.is_api | (calls.is_module & ~runs.open)
        # What these put out says nothing of the numbers they are given.
        self._is_call &= ~calls.are(lambda one: one.kind in _OF_SIZES)
        whole = self._output & runs.discrete
        numbers = self._output & ~runs.discrete
        only_whole = np.zeros(len(runs.npu.tree), dtype=bool)
        only_whole[table.node[whole & ~seen.differs]] = True
        only_whole[table.node[numbers | (whole & seen.differs)]] = False
        self._is_call &= ~only_whole
        self._other = self._is_call & ((runs.partner < 0) | runs.other_operator)
        self._has_others = bool(self._other.any())

    def meet_again(self, clue: Clue) -> bool:
        """Whether what is computed of a row agrees, and one program makes other calls before."""
        is_other = clue.cause in (*ONE_SIDED, Cause.WIRING)
        is_other |= is_of_other_sizes(self._runs, clue)
        if not is_other and not self._has_others:
            return False
        if is_state(self._runs, self._does, clue.row):
            return False  # later steps go on from it
        met = self._way(clue.row, self.usual(clue))
        return met is not None and (is_other or bool(self._other[met].any()))

    def agree(self, row: int) -> bool:
        """Whether all that is computed of a row ends in outputs that agree, and go on to."""
        return self._way(row) is not None

    def usual(self, clue: Clue) -> float:
        """What outputs before a clue are off by that are near, as no fault has made that."""
        if clue.side and clue.row < 0:
            return 0.0
        node = int(self._table.node[clue.row]) if clue.side else clue.node
        end = int(np.searchsorted(self._before, node))
        if end not in self._usual:
            near = np.sort(self._sizes_before[max(0, end - _NEAR) : end]).tolist()
            middle = near[(len(near) - 1) // 2 : len(near) // 2 + 1]
            is_told = len(near) >= _SEVERAL
            self._usual[end] = _AGREES * sum(middle) / len(middle) if is_told else 0.0
        return self._usual[end]

    def _way(self, row: int, usual: float = 0.0) -> list[int] | None:
        """The nodes behind a row until outputs agree; None where not all ends in such."""
        first = self._users(row) if self._output[row] else [int(self._table.node[row])]
        pending = [(node, 0) for node in first]
        met: set[int] = set()
        known: set[tuple[int, int]] = set()  # with how many calls before it that agree
        while pending:
            node, agreeing = pending.pop()
            if (node, agreeing) in known or agreeing > _FURTHER:
                continue
            known.add((node, agreeing))
            met.add(node)
            if len(met) > _LONGEST:
                return None
            rows = rows_of(self._table, node)
            outputs = rows.start + self._output[rows.start : rows.stop].nonzero()[0]
            if not len(outputs):
                if agreeing:
                    continue  # a number that is read of what agrees
                return None
            for one in outputs.tolist():
                users = self._users(one)
                # Behind what agrees the errors of that are all that is expected.
                carried = _SELDOM * float(self._told[one]) if agreeing else 0.0
                level = self._level[one]
                if level >= 0 and self._size[one] <= max(level, usual, carried):
                    pending += [(user, agreeing + 1) for user in users]
                elif users and np.isnan(self._size[one]):  # nobody compared it
                    pending += [(user, agreeing) for user in users]
                elif agreeing or not users:
                    return None  # equal numbers of what stood in another order
                else:
                    pending += [(user, 0) for user in users]
        return list(met) if met else None

    def _users(self, row: int) -> list[int]:
        first, last = self._first_user[row], self._first_user[row + 1]
        return [one for one in self._by[first:last].tolist() if self._is_call[one]]


def _firsts(numbers: Int, size: int) -> Int:
    """Where each of ``size`` numbers would begin were these in order, and where the last ends."""
    return np.append(0, np.cumsum(np.bincount(numbers, minlength=size)))


class Leaks:
    """Tensors that are off and leave a module otherwise than in what it puts out."""

    def __init__(self, evidence: Evidence) -> None:
        runs, seen = evidence.runs, evidence.seen
        table = runs.npu.table
        unit = runs.coarse if runs.is_mixed else runs.fine
        used = np.flatnonzero(runs.rows(Section.INPUT) & (runs.origin >= 0))
        used = used[~runs.backward[table.node[used]] & (seen.size[used] > _AGREES * unit[used])]
        self._made, self._by = table.node[runs.origin[used]], table.node[used]
        # What is written into a part is recorded as it was given.
        level = _AGREES * np.fmax(unit, evidence.noise[table.node])
        off = runs.rows(Section.INPUT, Section.OUTPUT) & (seen.size > level)
        written = np.zeros(len(runs.npu.tree), dtype=bool)
        written[table.node[off]] = True
        self._kept = np.flatnonzero(written & _writes_what_stays(runs))
        self._end = runs.npu.tree.subtree_end
        self._known: dict[tuple[int, int], bool] = {}

    def leaves(self, node: int, module: int) -> bool:
        """Whether a call behind the module is given what one inside, from ``node`` on, has made.

        Or a later pass is: it was written to a buffer.
        """
        end = int(self._end[module])
        if (node, module) not in self._known:
            inside = (self._made >= node) & (self._made <= end) & (self._by > end)
            self._known[node, module] = bool(inside.any()) or self.stays(node, end)
        return self._known[node, module]

    def stays(self, node: int, end: int) -> bool:
        """Whether a call from ``node`` to ``end`` leaves a buffer otherwise than there."""
        return bool(((self._kept >= node) & (self._kept <= end)).any())


def _writes_what_stays(runs: Runs) -> Bool:
    """Forward calls that write to a tensor which was there before, or to what these have left."""
    part, table = runs.npu, runs.npu.table
    in_place = part.calls.apis(is_in_place) & part.calls.is_forward_call
    rows = np.flatnonzero((table.section == Section.INPUT) & (table.position == 0))
    rows = rows[in_place[table.node[rows]] & table.is_tensor[rows]]
    result = np.zeros(len(part.tree), dtype=bool)
    for row in rows.tolist():
        result[table.node[row]] = _was_there(runs, row, result)
    return result


def _was_there(runs: Runs, row: int, written: Bool) -> bool:
    """Whether a tensor comes from outside, as it was or as those that are ``written`` left it."""
    table = runs.npu.table
    for _ in range(_HANDED_ON):
        made = int(runs.origin[row])
        if made < 0 or written[table.node[made]]:
            return True
        node = int(table.node[made])
        operator = runs.npu.calls.operators[int(runs.npu.calls.stem[node])]
        given = inputs_of(table, node)[:1]
        same = table.statistics[:, given] == table.statistics[:, made, None]
        is_handed_on = operator.kind in _SHARING and operator.name != "clone"
        if not is_handed_on or not len(given) or not same.all():
            return False
        row = int(given[0])
    return False
