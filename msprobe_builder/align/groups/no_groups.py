"""Groups that are none: each of their calls has a counterpart of its own."""

from __future__ import annotations

import numpy as np

from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.base.codes import Evidence
from msprobe_builder.match.matching import Group


def are_pairs(pairs: Pairs, group: Group, *, by_place: bool) -> bool:
    """Match the calls of a group that is no more than calls of the same operators, if it is one.

    One of a single call on each side that does the same, whatever it is called; or one where a side
    merely moves numbers, by calls that all stand on the other side, too, in the same order, among
    others that do more. It was found ``by_place``, so that nothing tells that both come to the
    same: what is in between one side makes alone.
    """
    if not by_place and max(len(group.npu), len(group.bench)) > 1:
        return False
    is_fewer = len(group.npu) <= len(group.bench)
    few, many = (group.npu, group.bench) if is_fewer else (group.bench, group.npu)
    sides = (pairs.npu, pairs.bench) if is_fewer else (pairs.bench, pairs.npu)
    moves, all_move = (
        all(int(side.operator[one]) in pairs.known.moving for one in nodes)
        for side, nodes in zip(sides, (few, many), strict=True)
    )
    are_the_same = np.array_equal(sides[0].operator[list(few)], sides[1].operator[list(many)])
    if len(many) > 1 and (not moves or all_move) and not are_the_same:
        return False
    found, rest = [], iter(many)
    for one in few:
        both = ((one, other) if is_fewer else (other, one) for other in rest)
        match = next((pair for pair in both if _is_alike(pairs, *pair, by_place=by_place)), None)
        if match is None:
            return False
        found.append(match)
    takes = bool((sides[0].inputs.count[list(few)] > 0).all())
    if len(many) > 1 or (are_the_same and takes):
        # That their numbers differ, for which such a pair is taken back, is what is made alone, or
        # what they are given; of nothing it would be what they do.
        pairs.denied.difference_update(found)
    added = [pairs.add(i, j, Evidence.INSIDE, _ALIKE) for i, j in found]
    return all(added)


def _is_alike(pairs: Pairs, i: int, j: int, *, by_place: bool) -> bool:
    """Whether two calls put out as much and are of one operator, or values and shapes agree.

    What takes in one tensor twice gives it two gradients: ``x * x`` is no pair of ``x ** 2``. What
    merely moves elements agrees in values wherever it puts them, and whole numbers do by chance.
    """
    npu, bench = pairs.npu, pairs.bench
    same = npu.operator[i] == bench.operator[j]
    moves = any(int(one) in pairs.known.moving for one in (npu.operator[i], bench.operator[j]))
    extremes = npu.outputs.values[1:, i]
    if (
        not by_place
        and not moves
        and (extremes % 1 != 0).any()
        and npu.inputs.count[i] == bench.inputs.count[j]
    ):
        same |= npu.outputs.shapes[i] == bench.outputs.shapes[j]
    same &= min(npu.operator[i], bench.operator[j]) >= 0
    return bool(same and npu.outputs.numel[i] == bench.outputs.numel[j])


_ALIKE = 5.0  # weight of pairs that take in and put out the same
