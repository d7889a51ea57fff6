"""Calls that put elements elsewhere, which no statistic tells until somebody computes with them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.part import Part, inputs_of, tensors_of
from msprobe_builder.operators.operator import Kind
from msprobe_builder.verdict.model.masked import masked_rows
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]

_ARRANGING = {
    *(Kind.TRANSPOSE, Kind.TURN, Kind.SORT, Kind.REPEAT, Kind.SHAPE, Kind.PICK, Kind.PLACE),
    *(Kind.JOIN, Kind.POOL, Kind.COMPARE, Kind.MASK),
}
# Calls of one tensor through which another arrangement goes unseen.
_BLIND = _ARRANGING | {Kind.CAST, Kind.POINTWISE, Kind.SLICE}
_FURTHEST = 12
_NEAR = 200


Movers = tuple[set[int], set[int]]


def movers(runs: Runs, arguments: Iterable[int]) -> Movers:
    """By side the calls that may put elements elsewhere than the other side does.

    They have no counterpart, or other ``arguments``.
    """
    without = runs.other_operator | (runs.partner < 0), runs.bench_partner < 0
    without[0][list(arguments)] = True
    first, second = (
        set(np.flatnonzero(alone & side.part.calls.do(lambda one: one.kind in _ARRANGING)).tolist())
        for side, alone in zip(runs.sides, without, strict=True)
    )
    return first, second


def arranged_by(runs: Runs, node: int, moving: Movers, *, is_gross: bool) -> tuple[int, int] | None:
    """Side and node of the nearest call before that may have put elements elsewhere; None: nobody.

    With ``is_gross``, also one that put out whole numbers anywhere before. It is one of those that
    are ``moving``, and from which on nothing would have shown it.
    """
    found = []
    for side, (part, _, _, _, maker) in enumerate(runs.sides):
        start = node if side == 0 else int(runs.partner[node])
        if start >= 0 and moving[side]:
            before = _before(part, start, maker)
            found += [(distance, side, one) for distance, one in before if one in moving[side]]
    if found:
        return min(_not_of_both(runs, found) or found)[1:]
    return _unmatched_choice(runs, node) if is_gross and not runs.backward[node] else None


def _not_of_both(runs: Runs, found: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Those that have no like on the other side as far before, as of two that nobody has paired."""
    kinds = [
        (
            distance,
            runs.sides[side].part.calls.operators[int(runs.sides[side].part.calls.stem[one])],
        )
        for distance, side, one in found
    ]
    sides = [
        {kind for kind, one in zip(kinds, found, strict=True) if one[1] == side} for side in (0, 1)
    ]
    both = sides[0] & sides[1]
    return [one for kind, one in zip(kinds, found, strict=True) if kind not in both]


def blindly_before(runs: Runs, node: int) -> set[int]:
    """Calls before, from which on no statistic would have shown other places."""
    return {one for _, one in _before(runs.npu, node, runs.origin)}


def joined_alike(runs: Runs, node: int) -> int | None:
    """The nearest call before that joined tensors of one call which no statistic tells apart.

    The other way round it would put out the same statistics.
    """
    table = runs.npu.table
    for _, one in _before(runs.npu, node, runs.origin):
        if _kind(runs.npu, one) is not Kind.JOIN:
            continue
        rows = inputs_of(table, one)
        made = runs.origin[rows]
        for row in sorted({*made[made >= 0].tolist()}):
            own = table.statistics[:, row]
            beside = tensors_of(table, int(table.node[row]), Section.OUTPUT)
            alike = (table.statistics[:, beside] == own[:, None]).all(axis=0)
            if own[0] > own[1] and min(np.count_nonzero(alike), (made == row).sum()) > 1:
                return one
    return None


def _unmatched_choice(runs: Runs, node: int) -> tuple[int, int] | None:
    """The last call of one side alone, before, that put out whole numbers or truth values.

    Of these next to nothing is recorded: two masks have equal statistics whatever they mask. Or
    one that put elements to places.
    """
    found = []
    for side, put_out in enumerate(runs.choices_alone):
        before = node if side == 0 else int(runs.partner[node])
        near = put_out[np.searchsorted(put_out, before - _NEAR, "right") :][:1]
        found += [(before - one, side, one) for one in near.tolist() if one < before]
    return min(found)[1:] if found else None


def _kind(part: Part, node: int) -> Kind:
    calls = part.calls
    return calls.operators[int(calls.stem[node])].kind


def _hides(part: Part, node: int) -> bool:
    """Whether a call puts out a mask, or what one hides the elements of."""
    rows = tensors_of(part.table, node, Section.OUTPUT)
    return bool(masked_rows(part.table.statistics[:, rows]).any())


def _before(part: Part, node: int, maker: Int) -> list[tuple[int, int]]:
    """Calls that a call's inputs come from, through such as would show nothing; with distances."""
    result: list[tuple[int, int]] = []
    seen = {node}
    level = [node]
    for distance in range(_FURTHEST):
        following = []
        for one in level:
            rows = inputs_of(part.table, one)
            # Where some elements are hidden, which ones they are is not in any statistic.
            if distance == 0 or (
                len(rows) <= 2 and (_kind(part, one) in _BLIND or _hides(part, one))
            ):
                made = maker[rows]
                following += part.table.node[made[made >= 0]].tolist()
        level = [one for one in dict.fromkeys(following) if one not in seen]
        if not level:
            break
        seen.update(level)
        result += [(distance, one) for one in level]
    return result
