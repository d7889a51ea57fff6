"""Calls that one side alone makes, and which of what follows may hide what they do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.calls import carries, has_own_gradient
from msprobe_builder.graph.part import Part, inputs_of
from msprobe_builder.operators import questions
from msprobe_builder.verdict.differences.flow import Flow
from msprobe_builder.verdict.differences.operators import (
    Family,
    families,
)
from msprobe_builder.verdict.findings import SUSPICIOUS, Cause, Finding, Place
from msprobe_builder.verdict.roles.written import stale

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_FAR = 8.0  # times what is still the same


def calls_of_one_side(flow: Flow) -> dict[int, Place]:
    """Inputs that came from a call which only one side makes, and in which that may be hidden.

    Where such a call changes the statistics of what it is given, a tensor that has them on both
    sides was made by other means on the other side: nothing is hidden. Between the ranks of a
    merged side there is communication that an unsplit run does without, with memory for it and
    functions around it.
    """
    found: dict[int, Place] = dict(flow.apart)
    npu, bench = flow.npu.table, flow.bench.table
    rows = np.flatnonzero((flow.producer >= 0) & (flow.bench_of >= 0))
    other = flow.bench_producer[flow.bench_of[rows]]
    rows, other = rows[other >= 0], other[other >= 0]
    lacking = flow.bench_unmatched[bench.node[other]]
    if flow.is_merged:
        lacking &= ~_between_ranks(flow.bench)[bench.node[other]]
    rows, other = rows[lacking], other[lacking]
    done = _is_same(flow, rows)
    done[done] = _changes(flow.bench, other[done], flow.floor[rows[done]])
    for row, reference in zip(rows[~done].tolist(), other[~done].tolist(), strict=True):
        found.setdefault(row, Place(1, int(bench.node[reference]), Cause.MISSING))
    rows = np.flatnonzero(flow.producer >= 0)
    debug = npu.node[flow.producer[rows]]
    extra = flow.unmatched[debug]
    if flow.is_merged:
        extra &= ~_between_ranks(flow.npu)[debug]
    rows, debug = rows[extra], debug[extra]
    done = _is_same(flow, rows)
    # A cast that shows in no statistic rounds no more than is expected, and moves nothing.
    casts = flow.npu.calls.are(questions.casts)[debug]
    done[done] = casts[done] | _changes(flow.npu, flow.producer[rows[done]], flow.floor[rows[done]])
    for row, node in zip(rows[~done].tolist(), debug[~done].tolist(), strict=True):
        if row not in flow.apart:
            found[row] = Place(0, node, Cause.EXTRA)
    return found | stale(flow)


def _between_ranks(part: Part) -> Bool:
    """Calls that talk to other ranks, take memory, or are functions with a gradient of their own.

    Those only beside calls that talk.
    """
    family = families(part.calls)
    talks = family == Family.COMMUNICATION
    beside = np.zeros(len(family), dtype=bool)
    beside[part.tree.parent[talks]] = True
    functions = (part.calls.of_stems(has_own_gradient) == 1) & beside[part.tree.parent]
    return np.asarray(talks | functions | (family == Family.UNINITIALISED))


def _is_same(flow: Flow, rows: Int) -> Bool:
    """Whether all statistics are those of the reference, mask values as well.

    Truth values have extremes alone, and those of any mask that covers a part are the same.
    """
    result = (flow.bench_of[rows] >= 0) & flow.informative[rows]
    result &= ~np.isnan(flow.npu.table.statistics[3, rows])
    rows = rows[result]
    debug = flow.npu.table.statistics[:, rows]
    reference = flow.bench.table.statistics[:, flow.bench_of[rows]]
    result[result] = ~_differ(debug, reference, flow.floor[rows])
    return result


def _differ(debug: Float, reference: Float, floor: Float) -> Bool:
    """Whether some statistic is off by more than rounding, in columns of maximum to norm."""
    with np.errstate(all="ignore"):
        size = np.fmax(np.abs(reference[0]), np.abs(reference[1]))
        off = np.abs(debug - reference) > SUSPICIOUS * floor * np.stack([size] * 3 + [reference[3]])
        unequal = (debug != reference) & ~(np.isnan(debug) & np.isnan(reference))
        finite = np.isfinite(debug) & np.isfinite(reference)
    return np.asarray(np.where(finite, off, unequal).any(axis=0))


def _changes(part: Part, rows: Int, floor: Float) -> Bool:
    """Whether calls that put out these rows show it in the statistics of all they are given.

    What hands numbers on may do that and put them elsewhere as well, unless it keeps their order;
    what merely shapes them need not change anything, nor what picks all there are. What is made of
    nothing, such as a range, is made elsewhere when it is there.
    """
    table, nodes = part.table, part.table.node[rows]
    picks = part.calls.are(questions.slices)
    moves = carries(part.calls) & ~picks & ~part.calls.are(questions.masks)
    result = part.calls.are(questions.shapes)[nodes]
    for place in np.flatnonzero(~moves[nodes] & ~result).tolist():
        row = int(rows[place])
        inputs = inputs_of(table, int(table.node[row]))
        own = np.repeat(table.statistics[:, [row]], len(inputs), axis=1)
        far = np.full(len(inputs), _FAR * floor[place])
        picks_all = bool(
            picks[nodes[place]] and len(inputs) == 1 and table.numel[inputs[0]] == table.numel[row]
        )
        result[place] = picks_all or _differ(own, table.statistics[:, inputs], far).all()
    return result


def modules_inside(flow: Flow) -> dict[int, Place]:
    """By npu module the first module in it that one side alone calls, with all it calls itself.

    Where something is wrong inside that was not recorded, this is known to be.
    """
    found: dict[int, Place] = {}
    above = (np.arange(len(flow.partner)), flow.bench_partner)
    for side, part, unmatched in (
        (0, flow.npu, flow.unmatched),
        (1, flow.bench, flow.bench_unmatched),
    ):
        if part.calls.is_api.any():
            continue
        for node in np.flatnonzero(unmatched & _lasting(part, unmatched)).tolist():
            around = int(above[side][part.tree.parent[node]])
            if around > 0 and unmatched[node : int(part.tree.subtree_end[node]) + 1].all():
                cause = Cause.MISSING if side else Cause.EXTRA
                found.setdefault(around, Place(side, node, cause))
    return found


def left_undone(flow: Flow) -> Bool:
    """What modules hand on as they are given it, where the reference makes a call of its own."""
    table, calls = flow.npu.table, flow.npu.calls
    result = np.zeros(len(table), dtype=bool)
    is_forward = calls.is_module & (calls.direction == Direction.FORWARD)
    rows = np.flatnonzero(
        is_forward[table.node] & (table.section == Section.OUTPUT) & (flow.bench_of >= 0)
    )
    made = flow.bench_producer[flow.bench_of[rows]]
    rows = rows[(made >= 0) & flow.bench_unmatched[flow.bench.table.node[made]]]
    result[[row for row in rows.tolist() if _hands_on(flow, row)]] = True
    return result


def is_undone(flow: Flow, finding: Finding) -> bool:
    """Whether such a module shows it, so that its own output tells that the call is missing."""
    is_module = flow.npu.calls.is_module[finding.at]
    return bool(finding.cause is Cause.MISSING and is_module and _hands_on(flow, finding.row))


def _hands_on(flow: Flow, row: int) -> bool:
    table = flow.npu.table
    given = table.statistics[:, inputs_of(table, int(table.node[row]))]
    return bool((given == table.statistics[:, [row]]).all(axis=0).any())


def called_more_often(flow: Flow) -> tuple[Int, Int]:
    """Of each node of both sides the module around it that one side alone calls as a whole.

    It is the outermost that the other side calls, too, less often; the node itself where there is
    none. A module with something in it that has a counterpart is a wrapper.
    """
    return (
        _whole(flow.npu, (flow.partner < 0) & (flow.grouped.npu < 0)),
        _whole(flow.bench, (flow.bench_partner < 0) & (flow.grouped.bench < 0)),
    )


def _whole(part: Part, alone: Bool) -> Int:
    tree, calls = part.tree, part.calls
    until = np.r_[0, np.cumsum(alone)]
    result = np.arange(len(tree))
    whole = until[tree.subtree_end + 1] - until[result] == tree.subtree_end - result + 1
    whole &= np.isin(calls.stem, calls.stem[~alone]) & _lasting(part, alone)
    for node in np.flatnonzero(whole).tolist():
        if result[node] == node:
            result[node : int(tree.subtree_end[node]) + 1] = node
    return result


def _lasting(part: Part, alone: Bool) -> Bool:
    """Modules whose gradient is given back on one side alone, too, if any were recorded.

    Recomputation calls a module again, and gives no gradient back more.
    """
    calls = part.calls
    if not (calls.direction == Direction.BACKWARD).any():
        return calls.is_module
    return np.asarray(calls.is_module & (calls.twin >= 0) & alone[calls.twin])


class Movers:
    """Calls of one side alone that put the numbers they are given elsewhere.

    None of them changes a norm, so that one that is off was made before. Nor does a cast to the
    type that a tensor has change anything: it is not ``unmatched``, though it has no ``partner``.
    """

    def __init__(self, part: Part, unmatched: Bool, partner: Int) -> None:
        self._table, self._unmatched = part.table, unmatched
        self._moves = unmatched & part.calls.are(questions.moves)
        self._casts = ~unmatched & (partner < 0) & part.calls.are(questions.casts)

    def behind(self, node: int, producer: Sequence[int], *, by_norm: bool) -> int:
        """The call of one side alone behind such ones; the node itself where there is none.

        ``producer`` by row as in :func:`~msprobe_builder.graph.producers.producers`; ``by_norm``
        tells that what the node puts out is off in its norm.
        """
        found = node
        while found >= 0 and (self._casts[found] or (by_norm and self._moves[found])):
            inputs = inputs_of(self._table, found)
            row = producer[inputs[0]] if len(inputs) else -1
            found = int(self._table.node[row]) if row >= 0 else -1
        return found if found >= 0 and self._unmatched[found] else node


def movers_of(flow: Flow) -> tuple[Movers, Movers]:
    """Of both sides."""
    return (
        Movers(flow.npu, flow.unmatched, flow.partner),
        Movers(flow.bench, flow.bench_unmatched, flow.bench_partner),
    )


def in_common(flow: Flow, more_often: tuple[Int, Int]) -> float:
    """The smaller share of forward calls that have a partner, of both sides.

    Of modules where nothing else was recorded; without what a module makes that one side calls
    more often, as that is one call.
    """
    npu, bench = flow.npu.calls.is_forward_call, flow.bench.calls.is_forward_call
    if not (npu.any() or bench.any()):
        npu, bench = (
            one.calls.is_module & (one.calls.direction == Direction.FORWARD)
            for one in (flow.npu, flow.bench)
        )
    both = np.count_nonzero(npu & (flow.partner >= 0))
    counts = [
        int(np.count_nonzero(calls & (whole == np.arange(len(whole)))))
        for calls, whole in zip((npu, bench), more_often, strict=True)
    ]
    return int(both) / max(*counts, 1)
