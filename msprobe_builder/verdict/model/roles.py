"""What part each call plays: which are to blame, which carry an error on, which are clean."""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import CallRole
from msprobe_builder.dump.parameters import Section
from msprobe_builder.verdict.model.clue import Clue, Evidence

Int = NDArray[np.int64]

_OFF, _OF_NOISE = 2.0, 4.0  # rounding units, and times the noise, from which on a call carries
_NOBODY = 1 << 62  # the number of no suspect
_PASSES = 2  # what a module puts out is made by calls that stand behind it


def roles(evidence: Evidence, found: list[Clue], excused: list[Clue]) -> tuple[Int, Int]:
    """By npu node its role, and the number of the suspect that it inherits from (-1).

    What inherits from another formula, which is ``excused``, carries on and has no suspect.
    """
    runs, seen = evidence.runs, evidence.seen
    table, size = runs.npu.table, len(runs.npu.tree)
    put_out = runs.rows(Section.OUTPUT, Section.PARAMETERS_GRAD)
    judged = np.flatnonzero(put_out & ~np.isnan(seen.size))
    judged = judged[~evidence.does.free[table.node[judged]]]
    role = np.full(size, int(CallRole.UNKNOWN))
    role[table.node[judged]] = CallRole.CLEAN
    unit = runs.coarse if runs.is_mixed else runs.fine
    level = np.fmax(_OFF * unit[judged], _OF_NOISE * evidence.noise[table.node[judged]])
    off = np.zeros(size, dtype=bool)
    off[table.node[judged[seen.size[judged] > level]]] = True
    source, begins = np.full(size, -1), dict[int, int]()
    for number, one in enumerate((*found, *excused)):
        at = int(table.node[one.row]) if one.row >= 0 else one.node if one.side == 0 else -1
        if at >= 0:
            begins.setdefault(at, number)
        if one.side == 0:
            source[one.node] = number
            if number < len(found):
                role[one.node] = CallRole.SUSPECT
    if begins:
        _carry(evidence, off, begins, role, source)
    source[source >= len(found)] = -1
    return role, source


def _carry(
    evidence: Evidence, off: NDArray[np.bool_], begins: dict[int, int], role: Int, source: Int
) -> None:
    """Fill in who inherits from whom."""
    asked, size = off.copy(), len(off)
    asked[list(begins)] = True
    places = np.array(sorted(begins))
    numbers = np.array([begins[place] for place in places.tolist()])
    # Numbers of an array are read far faster than those of a column, one at a time. Behind those
    # of all nodes are those of the places where errors begin.
    found = _numbers(np.append(np.where(source < 0, _NOBODY, source), numbers))
    column = np.frombuffer(found, dtype=np.int64)
    taken, made = _before(evidence, asked, asked | (source >= 0), places)
    for _ in range(_PASSES):
        left = column[taken] == _NOBODY
        taken, made = taken[left], made[left]
        for node, maker in zip(_numbers(taken), _numbers(made), strict=True):
            if found[maker] < found[node]:
                found[node] = found[maker]
    source[:] = np.where(column[:size] == _NOBODY, -1, column[:size])
    # Where nobody recorded what it was made of: what begins in it, or last before it.
    nodes = np.flatnonzero(off & (source < 0))
    behind = np.searchsorted(places, nodes, side="right")
    is_inside = np.append(places, size)[behind] <= evidence.runs.npu.tree.subtree_end[nodes]
    source[nodes] = np.append(-1, np.append(numbers, -1))[behind + is_inside]
    carries = (source >= 0) & (role == CallRole.CLEAN)
    role[carries] = CallRole.CARRIER


def _before(
    evidence: Evidence, asked: NDArray[np.bool_], known: NDArray[np.bool_], places: Int
) -> tuple[Int, Int]:
    """Nodes that are ``asked``, in their order, and by each one that is ``known`` before it.

    It has made a tensor of it, or is the forward call of a gradient. Before what is at ``places``
    stand these themselves, by their numbers behind all nodes.
    """
    runs = evidence.runs
    table, maker, twin = runs.npu.table, runs.maker, runs.npu.calls.twin
    asked = asked.copy()
    asked[places] = False
    rows = np.flatnonzero(table.is_tensor & (maker >= 0) & asked[table.node])
    back = np.flatnonzero(asked & runs.backward & (twin >= 0))
    taken = np.concatenate((table.node[rows], back))
    made = np.concatenate((table.node[maker[rows]], twin[back]))
    taken, made = np.append(taken[known[made]], places), made[known[made]]
    made = np.append(made, len(asked) + np.arange(len(places)))
    order = np.argsort(taken, kind="stable")
    return taken[order], made[order]


def _numbers(column: Int) -> array[int]:
    """To be read one at a time; in a list each would be an object of its own."""
    return array("q", column.astype(np.int64).tobytes())
