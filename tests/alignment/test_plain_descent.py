"""The way from the root down, told once more as what happens between two modules and below."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given, settings
from numpy.typing import NDArray

from msprobe_builder.align.pairing.inside import (
    Lists,
    _has_work,
    _open,
    _open_largest,
    _open_unequalled,
    _pair_equal,
    _pair_moved,
    _pair_traded,
    pair_inside,
    pair_lists,
)
from msprobe_builder.align.pairing.pairs import Pairs
from tests.alignment.plain_pairs import check, numbers, some_both, some_flags
from tests.alignment.plain_sides import Both
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
Items = tuple[Int, Int, Int, Int]


def opened(
    pairs: Pairs, sides: tuple[Lists, Lists], marks: tuple[Bool, Bool], items: Items
) -> Items:
    a, depth = _open(sides[0], items[0], items[2], pairs.partner, marks[0])
    b, other_depth = _open(sides[1], items[1], items[3], pairs.back, marks[1])
    return a, b, depth, other_depth


def descend(
    pairs: Pairs,
    both: Both,
    sides: tuple[Lists, Lists],
    marks: tuple[Bool, Bool],
    busy: tuple[Bool, Bool],
    held: tuple[list[int], list[int]],
) -> None:
    """What two modules hold, and then what each two of it hold in which anything is open."""
    a, b = (numbers(*one) for one in held)
    items = opened(pairs, sides, marks, (a, b, np.zeros_like(a), np.zeros_like(b)))
    for attempt in range(100):
        while _open_unequalled(pairs, items[0], items[1], *marks):
            items = opened(pairs, sides, marks, items)
        pair_lists(pairs, *items)
        if not attempt:
            _pair_traded(pairs, *items, other_calls=True)
        _pair_equal(pairs, items[0], items[1])
        _pair_moved(pairs, *items)
        alone = [one for one in items[0].tolist() if both.left[one].is_module]
        alone = [one for one in alone if pairs.partner[one] < 0]
        others = [one for one in items[1].tolist() if both.right[one].is_module]
        others = [one for one in others if pairs.back[one] < 0]
        if not alone and not others:
            break
        _open_largest(*sides, numbers(*alone), numbers(*others), *marks, attempt >= 8)
        items = opened(pairs, sides, marks, items)
    _pair_traded(pairs, *items)
    hosts = [one for one in items[0].tolist() if both.left[one].is_module]
    for host in [one for one in hosts if pairs.partner[one] >= 0 and busy[0][one]]:
        partner = int(pairs.partner[host])
        inside = sides[0].inside(host).tolist(), sides[1].inside(partner).tolist()
        if busy[1][partner] and all(inside):
            descend(pairs, both, sides, marks, busy, inside)


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_what_is_matched_is_gone_through_from_the_root_down(random: Random) -> None:
    """Each micro-step by itself; nothing where all that lies below has partners already."""
    both = some_both(random, 9, random.choice([0.0, 0.3]), steps=random.choice([1, 2]))
    plain = both.left, both.right
    first = [[some_flags(random, len(side), 0.1)] * 2 for side in plain]
    marks = [[one.copy() for one in some] for some in first]

    def lists(pairs: Pairs) -> tuple[Lists, Lists]:
        return Lists.of(pairs.npu, pairs.npu.forward), Lists.of(pairs.bench, pairs.bench.forward)

    def plainly(pairs: Pairs) -> None:
        sides = lists(pairs)
        busy = _has_work(sides[0], pairs.partner), _has_work(sides[1], pairs.back)
        held = sides[0].inside(0).tolist(), sides[1].inside(0).tolist()
        steps = [range(1 + max(one.micro_step for one in side.nodes)) for side in plain]
        for step in range(min(map(len, steps))):
            tops = [
                [one for one in some if side[one].micro_step == step]
                for side, some in zip(plain, held, strict=True)
            ]
            descend(pairs, both, sides, (marks[0][1], marks[1][1]), busy, (tops[0], tops[1]))

    check(
        both,
        lambda pairs: pair_inside(pairs, *lists(pairs), marks[0][0], marks[1][0]),
        plainly,
    )
    for here, there in marks:
        assert here.tolist() == there.tolist()
