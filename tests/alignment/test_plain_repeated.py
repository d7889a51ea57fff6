"""Equal calls in a row, and modules that names put in no order: told one by one."""

from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from msprobe_builder.align.evidence.trust import Trust
from msprobe_builder.align.pairing.repeated_calls import (
    exchangeable,
    one_code,
    order_tells,
    same_calls,
    same_code,
)
from tests.alignment.drawn_sides import UNKNOWN, altered, some_plain
from tests.alignment.plain_pairs import numbers
from tests.alignment.plain_sides import Node, Plain, both_of, elements, plain_leaves, shapes
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]


# -- what could as well be exchanged ------------------------------------------------------------


def stands_between(anchors: list[int], one: int, other: int) -> bool:
    return any(min(one, other) < anchor < max(one, other) for anchor in anchors)


def plainly_exchangeable(
    score: Float,
    pairs: list[tuple[int, int]],
    fast: list[bool],
    named: tuple[Bool, Bool],
    loops: tuple[Bool, Bool],
    said: Float,
) -> list[bool]:
    count = range(len(pairs))
    free_rows = [one for one in range(score.shape[0]) if one not in {i for i, _ in pairs}]
    free_columns = [one for one in range(score.shape[1]) if one not in {j for _, j in pairs}]
    both_named = named[0].any() and named[1].any()

    def without_order(k: int, m: int) -> bool:
        (i, j), (g, h) = pairs[k], pairs[m]
        return bool(both_named and (named[0][i, g] or named[1][j, h]))

    swaps = {
        (k, m)
        for k, m in product(count, count)
        for (i, j), (g, h) in [(pairs[k], pairs[m])]
        if k != m
        and score[i, h] + score[g, j] > score[i, j] + score[g, h] - 1.4
        and (not fast[k] or without_order(k, m))
    }
    by_row = {
        (k, row)
        for k, row in product(count, free_rows)
        for i, j in [pairs[k]]
        if score[row, j] > score[i, j] - 0.7 and (not fast[k] or named[0][i, row])
    }
    by_column = {
        (k, column)
        for k, column in product(count, free_columns)
        for i, j in [pairs[k]]
        if score[i, column] > score[i, j] - 0.7 and (not fast[k] or named[1][j, column])
    }

    def is_told_by_name(k: int) -> bool:
        """Whether it agrees better by half than all that it could be exchanged with."""
        i, j = pairs[k]
        least = said[i, j] - 0.5
        others = [said[i, pairs[m][1]] for one, m in swaps if one == k]
        others += [said[pairs[m][0], j] for one, m in swaps if one == k]
        others += [said[row, j] for one, row in by_row if one == k]
        others += [said[i, column] for one, column in by_column if one == k]
        return bool(least >= 0 and all(one <= least for one in others))

    by_name = {k for k in count if is_told_by_name(k)}
    swaps = {(k, m) for k, m in swaps if k not in by_name and m not in by_name}
    by_row = {one for one in by_row if one[0] not in by_name}
    by_column = {one for one in by_column if one[0] not in by_name}
    told = {k for k in count if k not in {one for one, _ in (*swaps, *by_row, *by_column)}}
    in_order = ascending([j for _, j in pairs])
    loop = set[int]()
    for _ in range(8):
        rows = [pairs[k][0] for k in told if k in in_order]
        columns = [pairs[k][1] for k in told if k in in_order]
        now = set[int]()
        for k in count:
            i, j = pairs[k]
            others = [
                m
                for one, m in swaps
                if one == k
                and not stands_between(rows, i, pairs[m][0])
                and not stands_between(columns, j, pairs[m][1])
            ]
            of_others = any(
                loops[0][i, pairs[m][0]] or loops[1][j, pairs[m][1]] for one, m in swaps if one == k
            )
            is_free = any(
                one == k and not stands_between(rows, i, row) for one, row in by_row
            ) or any(one == k and not stands_between(columns, j, each) for one, each in by_column)
            if not fast[k] and len(others) >= 7 and not of_others:
                loop.add(k)
            if not is_free and (not others or k in loop):
                now.add(k)
        if now == told:
            break
        told = now
    return [k not in told for k in count]


def ascending(values: list[int]) -> set[int]:
    """Places of a longest increasing sequence; of several the one that the program takes."""
    from msprobe_builder.base.sequence import longest_increasing

    return {int(one) for one in longest_increasing(numbers(*values))}


def symmetric(random: Random, size: int, share: float) -> Bool:
    found = np.array([[random.random() < share for _ in range(size)] for _ in range(size)])
    found = found.reshape(size, size) & ~np.eye(size, dtype=bool)
    return found | found.T


@settings(max_examples=costly_examples(120))
@given(RANDOMS)
def test_pairs_are_exchangeable_where_neither_anchors_nor_words_tell(random: Random) -> None:
    size = random.choice([3, 5, 10])
    rows = sorted(random.sample(range(size), random.randint(1, size)))
    columns = random.sample(range(size), len(rows))
    if random.random() < 0.7:
        columns.sort()
    values = random.choice([[2.0, 9.0], [2.0, 2.7, 3.0, 3.4], [2.0, -50.0]])
    score = np.array(random.choices(values, k=size * size)).reshape(size, size)
    if random.random() < 0.6:  # most pairs are far better than what they could be instead
        score[:] = -50.0
        for i, j in zip(rows, columns, strict=True):
            score[i, j] = 4.0
        near = random.sample(range(size), random.randint(0, size))
        score[np.ix_(near, near)] = random.choice([3.3, 3.301, 4.0])
    elif random.random() < 0.3:
        score[:] = 2.0
    share = random.choice([0.0, 0.1])
    named = symmetric(random, size, share), symmetric(random, size, share)
    loops = symmetric(random, size, share / 4), symmetric(random, size, share / 4)
    said = np.array(random.choices([0.0, 0.0, 0.5, 1.0, 1.1], k=size * size)).reshape(size, size)
    said = said * (random.random() < 0.5)
    fast = [random.random() < random.choice([0.0, 0.5]) for _ in rows]
    found = exchangeable(
        score, numbers(*rows), numbers(*columns), np.array(fast), named, loops, said
    )
    pairs = [*zip(rows, columns, strict=True)]
    assert found.tolist() == plainly_exchangeable(score, pairs, fast, named, loops, said)


@pytest.mark.parametrize(("count", "is_told"), [(7, False), (8, True), (9, True)])
@pytest.mark.parametrize("fault", ["", "fast", "loop", "free"])
def test_eight_passes_of_a_loop_are_told_by_their_numbers(
    count: int, is_told: bool, fault: str
) -> None:
    """Not of what stands fast, of modules that are apart, nor where one side has one more."""
    size = count + (fault == "free")
    score = np.full((size, count), 3.0)
    none = np.zeros((size, size), dtype=bool), np.zeros((count, count), dtype=bool)
    loops = none[0].copy(), none[1]
    if fault == "loop":
        loops[0][0, 1:] = loops[0][1:, 0] = True
    fast = np.zeros(count, dtype=bool)
    named = none if fault != "fast" else (~np.eye(size, dtype=bool), ~np.eye(count, dtype=bool))
    if fault == "fast":
        fast[:] = True
    places = np.arange(count)
    found = exchangeable(score, places, places, fast, named, loops, np.zeros((size, count)))
    assert (~found).all() == (is_told and not fault)


# -- whether order tells ------------------------------------------------------------


def longest_common(one: list[object], other: list[object]) -> int:
    table = np.zeros((len(one) + 1, len(other) + 1), dtype=int)
    for i, j in product(range(len(one)), range(len(other))):
        better = max(table[i, j + 1], table[i + 1, j])
        table[i + 1, j + 1] = table[i, j] + 1 if one[i] == other[j] else better
    return int(table[-1, -1])


def key(node: Node, trust: Trust) -> object:
    """What it does, and of what extent."""
    parts = (node.inputs, node.outputs, node.parameters)
    if not trust.same_shapes:
        return node.operator, *(elements(part) for part in parts)
    return node.operator, *(str(sorted(shapes(part).items())) for part in parts)


def two_sides(random: Random, size: int, share: float, **facts: Any) -> tuple[Plain, Plain]:
    left = some_plain(random, size, palette=UNKNOWN[:2], **facts)
    return left, altered(random, left, share)


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_order_tells_where_four_fifths_are_the_same_in_the_same_order(random: Random) -> None:
    left, right = two_sides(random, 10, random.choice([0.05, 0.2]), modules=0.2)
    trust = Trust(same_shapes=random.random() < 0.7)
    is_same = random.random() < 0.8
    both = both_of(left, right, same_code=is_same, trust=trust)
    nodes = [[*range(1, len(side))] for side in (left, right)]
    keys = [
        [key(side[one], trust) for one in some]
        for side, some in zip((left, right), nodes, strict=True)
    ]
    share = longest_common(*keys) >= 0.8 * max(map(len, keys))
    assert order_tells(both.pairs, numbers(*nodes[0]), numbers(*nodes[1])) == (is_same and share)
    for trust in (Trust(equal=2.0), Trust(near=1.0)):
        told = both_of(left, right, same_code=False, trust=trust)
        assert order_tells(told.pairs, numbers(*nodes[0]), numbers(*nodes[1]))


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_sides_are_of_one_code_where_nine_tenths_of_the_leaves_are_equal(random: Random) -> None:
    """Of the shorter side; of the longer one where no calls were recorded.

    In whatever order they make the same calls, if that is so of the longer side.
    """
    modules = random.choice([0.2, 1.0])
    share = random.choice([0.03, 0.15])
    left, right = two_sides(random, 24, share, modules=modules, steps=2)
    both = both_of(left, right)
    has_calls = any(one.operator >= 0 for one in left.nodes)
    expected = are_the_same = True
    steps = [1 + max(one.micro_step for one in side.nodes) for side in (left, right)]
    for step in range(min(steps)):
        keys = [
            [key(side[one], Trust()) for one in plain_leaves(side, step)] for side in (left, right)
        ]
        if all(keys):
            size = (min if has_calls else max)(map(len, keys))
            expected &= longest_common(*keys) >= 0.9 * size
        common = (Counter(keys[0]) & Counter(keys[1])).total()
        are_the_same &= common >= 0.9 * max(map(len, keys))
    assert one_code(both.pairs) == expected
    assert same_calls(both.pairs) == are_the_same


def hierarchy(plain: Plain, core: list[int]) -> list[object]:
    """Of each leaf module what it is, and the way up and down from the one before it."""

    def path(node: int) -> list[int]:
        """The modules around a node that do more than pass through."""
        above, found = plain[node].parent, []
        while above:
            found += [above] if core[above] == above and plain.module(above) else []
            above = plain[above].parent
        return found[::-1]

    nodes = [one for one in range(1, len(plain)) if plain.module(one)]
    found, before = list[object](), list[int]()
    for node in nodes:
        if plain.held[node] == [node]:
            here = path(node)
            common = 0
            while common < min(len(here), len(before)) and here[common] == before[common]:
                common += 1
            found.append((key(plain[node], Trust()), len(before) - common, len(here) - common))
            before = here
    return found


@settings(max_examples=costly_examples(80))
@given(RANDOMS)
def test_two_hierarchies_are_of_one_code_where_four_fifths_of_their_leaves_stand_alike(
    random: Random,
) -> None:
    left, right = two_sides(random, 14, random.choice([0.05, 0.2]), modules=1.0)
    both = both_of(left, right)
    cores = []
    for side in (left, right):
        core = [*range(len(side))]
        for node in range(1, len(side)):
            if len(side.children(node)) == 1 and random.random() < 0.3:
                core[node] = side.children(node)[0]
        cores.append(core)
    found = [hierarchy(side, core) for side, core in zip((left, right), cores, strict=True)]
    expected = longest_common(*found) >= 0.8 * min(map(len, found))
    assert same_code(both.pairs, numbers(*cores[0]), numbers(*cores[1])) == expected
