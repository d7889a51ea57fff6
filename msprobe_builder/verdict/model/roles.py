"""What part each call plays: which are to blame, which carry an error on, which are clean."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import CallRole
from msprobe_builder.dump.parameters import Section
from msprobe_builder.verdict.model.clue import Clue, Evidence

Int = NDArray[np.int64]

_OFF, _OF_NOISE = 2.0, 4.0  # rounding units, and times the noise, from which on a call carries
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
    asked = off.copy()
    asked[list(begins)] = True
    nodes = np.flatnonzero(asked)
    is_off, ends = off[nodes].tolist(), evidence.runs.npu.tree.subtree_end
    first, makers = _before(evidence, asked, nodes)
    found = source.tolist()  # numbers of a list are read far faster, one at a time
    order = _numbers(nodes)
    left: Sequence[int] = range(len(order))
    for _ in range(_PASSES):
        unknown = []
        for at in left:
            node = order[at]
            if found[node] >= 0:
                continue
            known = begins.get(node, -1)
            if known < 0:
                for maker in makers[first[at] : first[at + 1]]:
                    number = found[maker]
                    if number >= 0 and (known < 0 or number < known):
                        known = number
            if known >= 0:
                found[node] = known
            else:
                unknown.append(at)
        left = unknown
    # Where nobody recorded what it was made of: what begins in it, or last before it.
    latest, places = -1, sorted(begins)
    for at, node in enumerate(order):
        latest = begins.get(node, latest)
        if is_off[at] and found[node] < 0:
            inside = bisect_right(places, node)
            is_inside = inside < len(places) and places[inside] <= ends[node]
            found[node] = begins[places[inside]] if is_inside else latest
    source[:] = found
    carries = (source >= 0) & (role == CallRole.CLEAN)
    role[carries] = CallRole.CARRIER


def _before(
    evidence: Evidence, asked: NDArray[np.bool_], nodes: Int
) -> tuple[array[int], array[int]]:
    """Nodes that the tensors of ``nodes`` come from, and the forward call of a gradient.

    Those of the node at place ``i`` stand in the second one from ``first[i]`` to ``first[i + 1]``.
    """
    runs = evidence.runs
    table, maker, twin = runs.npu.table, runs.maker, runs.npu.calls.twin
    rows = np.flatnonzero(table.is_tensor & (maker >= 0) & asked[table.node])
    back = np.flatnonzero(asked & runs.backward & (twin >= 0))
    of = np.concatenate((table.node[rows], back))
    made = np.concatenate((table.node[maker[rows]], twin[back]))
    order = np.argsort(of, kind="stable")
    first = np.searchsorted(of[order], np.append(nodes, len(asked)))
    return _numbers(first), _numbers(made[order])


def _numbers(column: Int) -> array[int]:
    """To be read one at a time; in a list each would be an object of its own."""
    return array("q", column.astype(np.int64).tobytes())
