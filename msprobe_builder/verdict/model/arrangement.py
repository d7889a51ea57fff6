"""Calls that put elements elsewhere, which no statistic tells until somebody computes with them."""

from __future__ import annotations

from collections.abc import Container

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


def arranged_by(
    runs: Runs, node: int, arguments: Container[int], *, is_gross: bool
) -> tuple[int, int] | None:
    """Side and node of the nearest call before that may have put elements elsewhere; None: nobody.

    With ``is_gross``, also one that put out whole numbers anywhere before. One that has no
    counterpart, or other arguments, and from which on nothing would have shown it.
    """
    found = []
    for side, (part, partner, _, _, maker) in enumerate(runs.sides):
        start = node if side == 0 else int(runs.partner[node])
        if start >= 0:
            found += [
                (distance, side, one)
                for distance, one in _before(part, start, maker)
                if _arranges(part, one)
                and (
                    partner[one] < 0
                    or (not side and (one in arguments or runs.other_operator[one]))
                )
            ]
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
        if runs.npu.calls.operators[int(runs.npu.calls.stem[one])].kind is not Kind.JOIN:
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


def _arranges(part: Part, node: int) -> bool:
    return part.calls.operators[int(part.calls.stem[node])].kind in _ARRANGING


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
            kind = part.calls.operators[int(part.calls.stem[one])].kind
            # Where some elements are hidden, which ones they are is not in any statistic.
            is_blind = distance == 0 or (len(rows) <= 2 and (kind in _BLIND or _hides(part, one)))
            if not is_blind:
                continue
            made = [int(maker[row]) for row in rows.tolist()]
            following += [int(part.table.node[row]) for row in made if row >= 0]
        level = [one for one in dict.fromkeys(following) if one not in seen]
        if not level:
            break
        seen.update(level)
        result += [(distance, one) for one in level]
    return result
