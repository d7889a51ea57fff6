"""The way from the root down, told once more as what happens between two modules and below."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
from hypothesis import given, settings
from numpy.typing import NDArray

from msprobe_builder.align.pairing.inside import (
    _has_work,
    _open_largest,
    _open_unequalled,
    _pair_equal,
    _pair_moved,
    _pair_traded,
    pair_inside,
    pair_lists,
)
from msprobe_builder.align.pairing.lists import Lists
from msprobe_builder.align.pairing.pairs import Pairs
from tests.alignment.plain_pairs import (
    check,
    numbers,
    pair_plainly_alike,
    plainly_look_alike,
    some_both,
    some_flags,
)
from tests.alignment.plain_sides import Both
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
Items = tuple[Int, Int, Int, Int]


def descend(
    pairs: Pairs,
    both: Both,
    sides: tuple[Lists, Lists],
    marks: tuple[Bool, Bool],
    busy: tuple[Bool, Bool],
    held: list[tuple[list[int], list[int]]],
) -> None:
    """What each two modules of a level hold, and then the level below, as far as it is open."""

    def opened(side: int, nodes: list[int], depth: int = 0) -> list[tuple[int, int]]:
        partner = pairs.back if side else pairs.partner
        found = []
        for node in nodes:
            if marks[side][node] and partner[node] < 0:
                below = sides[side].inside(numbers(node)).nodes.tolist()
                found += opened(side, below, depth + 1)
            else:
                found.append((node, depth))
        return found

    def items_of(here: list[int], there: list[int]) -> Items:
        columns = [
            numbers(*(one[place] for one in opened(side, nodes)))
            for place in (0, 1)
            for side, nodes in enumerate((here, there))
        ]
        return columns[0], columns[1], columns[2], columns[3]

    level = [items_of(*some) for some in held]
    lists = [(items[0].tolist(), items[1].tolist()) for items in level]
    alike = [plainly_look_alike(replace(both, pairs=pairs), *some) for some in lists]
    for some, is_alike in zip(lists, alike, strict=True):
        pair_plainly_alike(pairs, *some, is_alike=is_alike)
    below: list[int] = []
    for some, items in zip(held, level, strict=True):
        for attempt in range(100 if all(map(len, items[:2])) else 0):
            while _open_unequalled(pairs, items[0], items[1], *marks):
                items = items_of(*some)
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
                _pair_traded(pairs, *items)
                break
            _open_largest(*sides, numbers(*alone), numbers(*others), *marks, attempt >= 8)
            items = items_of(*some)
        below += [one for one in items[0].tolist() if both.left[one].is_module]
    hosts = sorted(one for one in below if pairs.partner[one] >= 0 and busy[0][one])
    inside = [
        (
            sides[0].inside(numbers(host)).nodes.tolist(),
            sides[1].inside(pairs.partner[[host]]).nodes.tolist(),
        )
        for host in hosts
        if busy[1][pairs.partner[host]]
    ]
    if inside:
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
        held = [side.inside(numbers(0)).nodes.tolist() for side in sides]
        steps = [range(1 + max(one.micro_step for one in side.nodes)) for side in plain]
        tops = [
            [
                [one for one in some if side[one].micro_step == step]
                for step in range(max(map(len, steps)))
            ]
            for side, some in zip(plain, held, strict=True)
        ]
        level = list(zip(*tops, strict=True))
        descend(pairs, both, sides, (marks[0][1], marks[1][1]), busy, level)

    check(
        both,
        lambda pairs: pair_inside(pairs, *lists(pairs), marks[0][0], marks[1][0]),
        plainly,
    )
    for here, there in marks:
        assert here.tolist() == there.tolist()
