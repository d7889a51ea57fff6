"""Leaves that belong together, and modules that hold the same, told leaf by leaf."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, product
from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings

from msprobe_builder.align.pairing.across import around, pair_across
from msprobe_builder.align.pairing.anchors import (
    Aligned,
    align_leaves,
    by_micro_step,
    leaves,
    modules_of_leaves,
)
from msprobe_builder.align.pairing.inside import pair_gap
from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.align.pairing.repeated_calls import order_tells
from msprobe_builder.base.sequence import fill_gaps, longest_increasing
from tests.alignment.drawn_sides import PALETTE, UNKNOWN, altered, some_plain
from tests.alignment.plain_pairs import numbers, some_both
from tests.alignment.plain_sides import Node, Plain, elements, fresh, norm_of, plain_leaves, shapes
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS

# -- leaves ------------------------------------------------------------


def value_key(node: Node) -> object:
    """What it does, and the sizes and norms, to three digits, of all that is known of it."""
    parts = node.inputs, node.outputs, node.parameters
    norms = [norm_of(part) for part in parts]
    known = [norm if np.isfinite(norm) and norm > 0 else None for norm in norms]
    if known == [None] * 3:
        return "nothing is known"
    digits = [None if norm is None else round(float(np.log(norm)) * 1000) for norm in known]
    return node.operator, *digits, *(elements(part) for part in parts)


def shape_key(node: Node) -> object:
    parts = node.inputs, node.outputs, node.parameters
    return node.operator, *(str(sorted(shapes(part).items())) for part in parts)


def ids(one: list[object], other: list[object]) -> tuple[Any, Any]:
    places: dict[object, int] = {}
    return tuple(
        numbers(*(places.setdefault(key, len(places)) for key in keys)) for keys in (one, other)
    )  # type: ignore[return-value]


@settings(max_examples=costly_examples(50))
@given(RANDOMS)
def test_leaves_are_aligned_by_what_is_unlike_all_others_then_shapes_then_operators(
    random: Random,
) -> None:
    palette = random.choice([PALETTE, (*PALETTE, *UNKNOWN), UNKNOWN])
    left = some_plain(random, 12, palette=palette, steps=2)
    right = altered(random, left, 0.15)
    traits = left.traits(), right.traits()
    for side, plain in zip(traits, (left, right), strict=True):
        found = [one.tolist() for one in leaves(side)]
        steps = 1 + max(one.micro_step for one in plain.nodes)
        assert found == [plain_leaves(plain, step) for step in range(steps)]
        mixed = random.sample(range(len(plain)), len(plain))
        parts = by_micro_step(side, numbers(*mixed))
        for step, part in enumerate(parts):
            assert part.tolist() == [one for one in mixed if plain[one].micro_step == step]
    a, b = plain_leaves(left, 0), plain_leaves(right, 0)
    if not a or not b:
        return
    several = [
        numbers(*(random.choice([-1, -1, -1, one % 4]) for one in range(len(plain))))
        for plain in (left, right)
    ]
    twins = (several[0], several[1]) if random.random() < 0.5 else None

    def value(side: int, plain: Plain, node: int) -> object:
        if twins is not None and twins[side][node] >= 0:
            return "weights", int(twins[side][node])
        return value_key(plain[node])

    keys = [value(0, left, one) for one in a], [value(1, right, one) for one in b]
    counts = Counter(keys[0]), Counter(keys[1])
    alone = [
        (row, keys[1].index(key))
        for row, key in enumerate(keys[0])
        if counts[0][key] == counts[1][key] == 1
    ]
    kept = longest_increasing(numbers(*(column for _, column in alone)))
    sure = [alone[one] for one in kept.tolist()]
    x, y = numbers(*(row for row, _ in sure)), numbers(*(column for _, column in sure))
    for key in (shape_key, lambda one: (one.operator, len(one.parameters))):
        x, y = fill_gaps(*ids([key(left[one]) for one in a], [key(right[one]) for one in b]), x, y)
    aligned = align_leaves(*traits, numbers(*a), numbers(*b), twins)
    assert [*zip(aligned.npu, aligned.bench, strict=True)] == [
        (a[row], b[column]) for row, column in zip(x, y, strict=True)
    ]
    assert aligned.is_sure.tolist() == [row in {one for one, _ in sure} for row in x.tolist()]


@settings(max_examples=costly_examples(50))
@given(RANDOMS)
def test_modules_belong_together_that_hold_the_same_leaves(random: Random) -> None:
    """Four at least, three fifths of those of either, and a fifth of all that the larger holds."""
    left = some_plain(random, 40, modules=0.35)
    right = left if random.random() < 0.4 else altered(random, left, 0.1)
    sides = left, right
    held = [[one for one in range(1, len(side)) if side.leaf(one)] for side in sides]
    size = min(map(len, held))
    rows = sorted(random.sample(held[0], random.randint(size // 2, size)))
    columns = sorted(random.sample(held[1], len(rows)))
    if right is left and random.random() < 0.7:
        columns = rows
    is_sure = [random.random() < 0.5 for _ in rows]
    twin = [
        left[row].is_module and right[column].is_module and random.random() < 0.7
        for row, column in zip(rows, columns, strict=True)
    ]
    cores = []
    for side in sides:
        core = [*range(len(side))]
        for node in range(1, len(side)):
            if len(side.children(node)) == 1 and random.random() < 0.3:
                core[node] = side.children(node)[0]
        cores.append(core)

    def above(side: int, node: int) -> list[int]:
        """The modules around a leaf, itself if it is one, twelve levels up at most."""
        plain, found = sides[side], []
        current = node if plain[node].is_module else plain[node].parent
        for _ in range(12):
            if not current:
                break
            found += [current] if cores[side][current] == current else []
            current = plain[current].parent
        return [one for one in found if plain.module(one)]

    def votes_of(chosen: list[bool]) -> Counter[tuple[int, int]]:
        votes: Counter[tuple[int, int]] = Counter()
        for row, column, is_in in zip(rows, columns, chosen, strict=True):
            votes.update(product(above(0, row), above(1, column)) if is_in else ())
        return votes

    def share(votes: int, side: int, module: int, of: list[int]) -> float:
        return votes / max(1, len([one for one in of if one in sides[side].held[module]]))

    everything, weights = votes_of([True] * len(rows)), votes_of(twin)
    known = [row for row, is_in in zip(rows, is_sure, strict=True) if is_in]
    known_twins = [row for row, is_in in zip(rows, twin, strict=True) if is_in]
    expected = []
    for (i, j), votes in everything.items():
        shares = share(votes, 0, i, rows), share(votes, 1, j, columns)
        largest = max(len(left.held[i]), len(right.held[j])) - 1
        if votes < 4 or min(shares) < 0.6 or votes < 0.2 * largest:
            continue
        sure = len([one for one in known if one in left.held[i]])
        part = share(weights[i, j], 0, i, known_twins)
        sure_share = max(share(sure, 0, i, rows), part)
        weight = shares[0] * shares[1]
        more = abs(len(left.calls_below(i)) - len(right.calls_below(j)))
        order = part < 0.6, -float(np.round(weight, 1)), -votes, -weight, more, i, j
        expected.append((order, i, j, sure_share))
    found = modules_of_leaves(
        left.traits(),
        right.traits(),
        Aligned(numbers(*rows), numbers(*columns), np.array(is_sure, dtype=bool)),
        numbers(*cores[0]),
        numbers(*cores[1]),
        np.array(twin, dtype=bool) if any(twin) or random.random() < 0.5 else None,
    )
    expected.sort()
    assert [*zip(found.npu, found.bench, strict=True)] == [(i, j) for _, i, j, _ in expected]
    assert np.allclose(found.sure, [sure for *_, sure in expected])


# -- across modules ------------------------------------------------------------


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_leaves_are_paired_between_leaves_whatever_stands_around_them(random: Random) -> None:
    """Then the calls alone, in each micro-step."""
    both = some_both(random, 10, random.choice([0.2, 0.5]), steps=2)

    def plainly(pairs: Pairs) -> None:
        steps = min(
            1 + max(one.micro_step for one in side.nodes) for side in (both.left, both.right)
        )
        for calls, step in product((False, True), range(steps)):
            a, b = (
                [
                    one
                    for one in range(1, len(side))
                    if (side.leaf(one) if calls else one in plain_leaves(side, step))
                    and side[one].micro_step == step
                ]
                for side in (both.left, both.right)
            )
            known = [
                (row, b.index(int(pairs.partner[i])))
                for row, i in enumerate(a)
                if int(pairs.partner[i]) in b
            ]
            kept = longest_increasing(numbers(*(column for _, column in known)))
            ends = [(-1, -1), *(known[one] for one in kept.tolist()), (len(a), len(b))]
            gaps = [(a[one[0] + 1 : two[0]], b[one[1] + 1 : two[1]]) for one, two in pairwise(ends)]
            gaps = [gap for gap in gaps if gap[0] and gap[1]]
            in_order = not gaps or order_tells(pairs, numbers(*a), numbers(*b))
            for rows, columns in gaps:
                i = numbers(*(one for one in rows if pairs.partner[one] < 0))
                j = numbers(*(one for one in columns if pairs.back[one] < 0))
                if len(i) and len(j):
                    none = np.zeros_like(i), np.zeros_like(j)
                    pair_gap(pairs, i, j, *none, around(pairs, i, j), in_order=in_order)

    twin = fresh(both.pairs)
    plainly(twin)
    pair_across(both.pairs)
    assert both.pairs.partner.tolist() == twin.partner.tolist()
    assert both.pairs.open == twin.open
