"""Which call is to blame for what another one puts out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Section
from msprobe_builder.dump.shapes import parse_shape
from msprobe_builder.graph.part import Part, inputs_of, rows_of
from msprobe_builder.operators.operator import Operator
from msprobe_builder.operators.questions import casts
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.arrangement import arranged_by, joined_alike
from msprobe_builder.verdict.model.clue import Clue, Evidence
from msprobe_builder.verdict.model.conduct import SUMS
from msprobe_builder.verdict.model.observations import WORST
from msprobe_builder.verdict.model.outputs import are_of_one_batch
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]

_GROSS = 0.02  # less than elements of other places are off by
_IDLE_CALLS, _ALIKE_CALLS = 4, 64  # behind one another


def looked_behind(evidence: Evidence, clue: Clue) -> Clue:
    """The clue of an output as one of a call before that is more likely to blame, if any."""
    runs = evidence.runs
    if clue.error >= WORST:
        return replace(clue, node=_origin(runs, clue.node))
    ahead = int(runs.npu.calls.twin[clue.node]) if runs.backward[clue.node] else -1
    if ahead >= 0 and (runs.partner[ahead] < 0 or runs.other_operator[ahead]):
        return replace(clue, node=ahead)  # another call gives back another gradient
    if runs.partner[clue.node] < 0 or runs.other_operator[clue.node]:
        return replace(clue, node=_first_of_alike(runs, clue.node))
    unmatched = _given_by_unmatched(evidence, clue.node)
    if unmatched is not None:
        return _of_first_alone(evidence, clue, *unmatched)
    resized = _of_other_size(evidence, clue.node)
    if resized >= 0:
        cause = Cause.ARGUMENT if resized in evidence.arguments else Cause.OUTPUT
        return replace(clue, node=resized, cause=cause)
    if evidence.is_merged:
        return clue  # ranks, and what has none, arrange in ways of their own: none is more likely
    if clue.error > _GROSS and _rows_are_other(evidence, clue.node):
        laid = laid_out_otherwise(evidence, clue)
        if laid is not clue:
            return laid
    by = arranged_by(runs, clue.node, evidence.movers, is_gross=clue.error > _GROSS)
    if by is not None:
        unmatched = None if by[0] else _given_by_unmatched(evidence, by[1])
        if unmatched is not None:
            return _of_first_alone(evidence, clue, *unmatched)
        return replace(clue, side=by[0], node=by[1], cause=Cause.ORDER)
    given = inputs_of(runs.npu.table, clue.node)
    if runs.backward[clue.node] or not np.isnan(evidence.seen.exact[given]).any():
        return clue
    joined = joined_alike(runs, clue.node) if clue.error > _GROSS else None
    return clue if joined is None else replace(clue, node=joined, cause=Cause.ORDER, rival="places")


def first_alone(runs: Runs, clue: Clue, kind: Int) -> Clue:
    """A call of one side alone, as the first of those of its operator in its module.

    What the first of them does may not show, such as adding to zeros. ``kind`` are the operations
    of its side. What stands in no module is looked for in its micro-step alone.
    """
    part, partner, *_ = runs.sides[clue.side]
    if partner[clue.node] >= 0 or not part.calls.is_forward_call[clue.node]:
        return clue
    around = int(part.tree.parent[clue.node])
    begin, step = max(around, 0), part.tree.micro_step
    nodes = slice(begin, clue.node + 1)
    alike = (part.tree.parent[nodes] == around) & (kind[nodes] == kind[clue.node])
    alike &= (partner[nodes] < 0) & (step[nodes] == step[clue.node])
    first = begin + int(np.argmax(alike))
    return replace(clue, node=_before_unknown(runs, clue.side, first))


def _of_first_alone(evidence: Evidence, clue: Clue, side: int, node: int) -> Clue:
    """The clue as one of the first of the calls behind one another that nobody can compare."""
    runs = evidence.runs
    first = _before_unknown(runs, side, node)
    if side == 0 and first in evidence.arguments:
        return replace(clue, node=first, cause=Cause.ARGUMENT)
    is_alone = runs.sides[side].partner[first] < 0
    cause = Cause.MISSING if side else Cause.EXTRA
    return replace(clue, side=side, node=first if is_alone else node, cause=cause)


def _before_unknown(runs: Runs, side: int, node: int) -> int:
    """The first call of those behind one another that put out what has no counterpart.

    Only behind the last of them are both sides compared again.
    """
    part, _, other, _, maker = runs.sides[side]
    for _ in range(_ALIKE_CALLS):
        made = maker[inputs_of(part.table, node)]
        made = made[made >= 0]
        before = part.table.node[made[other[made] < 0]]
        before = before[part.calls.is_forward_call[before] & (before < node)]
        if not len(before):
            break
        node = int(before.min())
    return node


def _given_by_unmatched(evidence: Evidence, node: int) -> tuple[int, int] | None:
    """Side and node of a call of one side alone that has made what a call is given.

    Of another size than there, or in place of what there is not: nothing of it was compared. What
    both sides make alike, but nobody pairs, such as ones, has the size of something before.
    """
    runs = evidence.runs
    if not are_of_one_batch(runs):
        return None
    nodes = node, int(runs.partner[node])
    pending = [
        _not_compared(part, known, at)
        for (part, _, known, _, _), at in zip(runs.sides, nodes, strict=True)
    ]
    first = None
    for _ in range(_IDLE_CALLS):
        if not any(pending):
            break
        found: list[dict[int, Operator]] = []
        for (part, _, _, _, maker), rows in zip(runs.sides, pending, strict=True):
            made = {int(part.table.node[maker[row]]) for row in rows if maker[row] >= 0}
            made = {one for one in made if part.calls.is_forward_call[one]}
            found.append(
                {one: part.calls.operators[int(part.calls.stem[one])] for one in sorted(made)}
            )
        alone = [
            {one: kind for one, kind in calls.items() if side.partner[one] < 0}
            for side, calls in zip(runs.sides, found, strict=True)
        ]
        both = set(alone[0].values()) & set(alone[1].values())
        told = [
            (side, one)
            for side, calls in enumerate(alone)
            for one, kind in calls.items()
            if not casts(kind)
        ]
        other = [(side, one) for side, one in told if alone[side][one] not in both]
        if other:
            return other[0]
        first = first or (told[0] if told else None)
        pending = [
            [row for one in (every if told else some) for row in _not_compared(part, known, one)]
            for (part, _, known, _, _), every, some in zip(runs.sides, found, alone, strict=True)
        ]
    return first


def _not_compared(part: Part, known: Int, node: int) -> list[int]:
    rows = inputs_of(part.table, node)
    return [int(row) for row in rows[known[rows] < 0]]


def _of_other_size(evidence: Evidence, node: int) -> int:
    """The call of both sides that put out more or fewer elements than there, of the same; or -1.

    Such as a mean over other dimensions. What a call is given of it was not compared.
    """
    runs, table, paired = evidence.runs, evidence.runs.npu.table, evidence.paired
    if not are_of_one_batch(runs) or runs.backward[node]:
        return -1
    for row in inputs_of(table, node).tolist():
        other, made = int(paired[row]), int(runs.origin[row])
        resized = other >= 0 and table.numel[row] != runs.bench.table.numel[other]
        if not resized or made < 0 or runs.partner[table.node[made]] < 0 or runs.other[made] >= 0:
            continue  # which has put out as many as there: another tensor is given
        if evidence.does.kind[table.node[made]] != SUMS:
            continue  # how many others put out may follow from data
        if (runs.other[inputs_of(table, int(table.node[made]))] >= 0).all():
            return int(table.node[made])
    return -1


def laid_out_otherwise(evidence: Evidence, clue: Clue) -> Clue:
    """The clue as one of the call that gave what a call is given another shape, if there is one.

    Thirds of heads, not heads of thirds: what is taken behind, and what meets in a product, follow
    from that.
    """
    runs, table, bench = evidence.runs, evidence.runs.npu.table, evidence.runs.bench.table
    if not are_of_one_batch(runs):
        return clue
    node = clue.node
    for _ in range(_IDLE_CALLS):
        rows = inputs_of(table, node)
        rows = rows[evidence.paired[rows] >= 0]
        other = evidence.paired[rows]
        is_laid = table.shape_id[rows] != bench.shape_id[other]
        is_laid &= table.numel[rows] == bench.numel[other]
        made = runs.origin[rows[is_laid]]
        before = table.node[made[made >= 0]]
        is_of_both = (runs.partner[before] >= 0) & ~runs.other_operator[before]
        before = before[is_of_both & runs.npu.calls.is_forward_call[before] & (before < node)]
        if not len(before):
            break
        node = int(before.min())
    return clue if node == clue.node else replace(clue, node=node, cause=Cause.ORDER)


def _rows_are_other(evidence: Evidence, node: int) -> bool:
    """Whether what a forward call is given ends in another size than there, of as many elements.

    Where leading dimensions alone are put together the rows are the same.
    """
    runs, table, bench = evidence.runs, evidence.runs.npu.table, evidence.runs.bench.table
    if runs.backward[node]:
        return False
    for row in inputs_of(table, node).tolist():
        other = int(evidence.paired[row])
        if other < 0 or table.shape_id[row] == bench.shape_id[other]:
            continue
        sizes = [
            parse_shape(runs.texts, int(one.shape_id[at]))
            for one, at in ((table, row), (bench, other))
        ]
        if all(sizes) and sizes[0][-1] != sizes[1][-1] and table.numel[row] == bench.numel[other]:
            return True
    return False


def _first_of_alike(runs: Runs, node: int) -> int:
    """The first of calls of one operator, alone on this side, each given what the one before made.

    What they make together is judged behind the last.
    """
    table, kind = runs.npu.table, runs.npu.calls.operations
    for _ in range(_ALIKE_CALLS):
        made = runs.origin[inputs_of(table, node)]
        before = table.node[made[made >= 0]]
        before = before[(before < node) & (kind[before] == kind[node])]
        before = before[(runs.partner[before] < 0) | runs.other_operator[before]]
        if not len(before):
            break
        node = int(before[0])
    return node


def _origin(runs: Runs, node: int) -> int:
    """The call that first put out infinity on this side alone, followed back from what broke."""
    table, bench = runs.npu.table, runs.bench.table
    for _ in range(64):
        for row in rows_of(table, node):
            made = int(runs.maker[row])
            other = int(runs.other[row])
            if table.section[row] != Section.INPUT or made < 0 or other < 0:
                continue
            infinite = np.isinf(table.statistics[:2, row]).any()
            if (
                infinite
                and not np.isinf(bench.statistics[:2, other]).any()
                and table.node[made] < node
            ):
                node = int(table.node[made])
                break
        else:
            return node
    return node
