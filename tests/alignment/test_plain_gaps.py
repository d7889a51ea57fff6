"""Lists of two modules, gap by gap and across them, against the same told plainly."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings
from numpy.typing import NDArray

from msprobe_builder.align.evidence.scores import IMPOSSIBLE, THRESHOLD, scores
from msprobe_builder.align.evidence.trust import Trust
from msprobe_builder.align.pairing import inside
from msprobe_builder.align.pairing.inside import (
    _pair_equal,
    _pair_moved,
    _pair_traded,
    pair_gap,
    pair_lists,
)
from msprobe_builder.align.pairing.pairs import Pairs, note
from msprobe_builder.align.pairing.repeated_calls import order_tells
from msprobe_builder.align.pairing.sequences import clear, decide
from msprobe_builder.base.codes import Evidence
from msprobe_builder.dump.names import Kind
from tests.alignment.drawn_sides import PALETTE, UNKNOWN, altered, some_pairs, some_plain, trusted
from tests.alignment.plain_pairs import (
    check,
    numbers,
    plain_gap,
    plain_lists,
    some_both,
    some_flags,
)
from tests.alignment.plain_sides import (
    Both,
    Node,
    Plain,
    both_of,
    level,
)
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS, Seeded

Int = NDArray[np.int64]


def free_items(random: Random, both: Both) -> tuple[Int, Int, Int, Int]:
    """Nodes of both sides without a partner, and how deep they stand."""
    a = [one for one in range(1, len(both.left)) if both.pairs.partner[one] < 0]
    b = [one for one in range(1, len(both.right)) if both.pairs.back[one] < 0]
    depths = [numbers(*(random.randint(0, 1) for _ in some)) for some in (a, b)]
    return numbers(*a), numbers(*b), depths[0], depths[1]


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_a_gap_is_decided_and_what_stays_open_keeps_its_candidates(random: Random) -> None:
    both = some_both(random, random.choice([5, 9]), 0.2)
    items = free_items(random, both)
    if not len(items[0]) or not len(items[1]):
        return
    shape = len(items[0]), len(items[1])
    flags = [some_flags(random, shape[0] * shape[1], 0.7).reshape(shape) for _ in range(2)]
    possible, chosen = (one if random.random() < 0.3 else None for one in flags)
    facts: dict[str, Any] = {"in_order": random.random() < 0.5, "chosen": chosen}
    check(
        both,
        lambda pairs: pair_gap(pairs, *items, possible, **facts),
        lambda pairs: plain_gap(pairs, *items, possible, **facts),
    )


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_lists_are_decided_between_what_is_matched_in_order(random: Random) -> None:
    both = some_both(random, random.choice([6, 10]), random.choice([0.0, 0.3]))
    sides = both.left, both.right
    host = random.random() < 0.5
    nodes = [side.children(0) if host else [*range(1, len(side))] for side in sides]
    depths = [numbers(*(random.randint(0, 1) for _ in some)) for some in nodes]
    items = numbers(*nodes[0]), numbers(*nodes[1]), depths[0], depths[1]
    check(
        both,
        lambda pairs: pair_lists(pairs, *items),
        lambda pairs: plain_lists(pairs, items),
    )


# -- across pairs ------------------------------------------------------------


def plain_traded(pairs: Pairs, items: tuple[Int, Int, Int, Int], *, other_calls: bool) -> None:
    """What is clear among all of the other list for both, so that the pairs stay as they are."""
    a, b, depth, other_depth = items
    npu, bench, known = pairs.npu, pairs.bench, pairs.known
    free = [one for one in range(len(a)) if pairs.partner[a[one]] < 0]
    others = [one for one in range(len(b)) if pairs.back[b[one]] < 0]
    if other_calls:
        stems = {int(known.stem[a[one]]) for one in free}
        there = {int(known.other_stem[b[one]]) for one in others}
        if free and others:
            free = [
                one for one in free if npu.operator[a[one]] < 0 and int(known.stem[a[one]]) in there
            ]
            others = [
                one
                for one in others
                if bench.operator[b[one]] < 0 and int(known.other_stem[b[one]]) in stems
            ]
    if not free or not others:
        return
    i, j = numbers(*free), numbers(*others)
    rows = scores(npu, bench, a[i], b, depth[i], other_depth, known)
    columns = scores(npu, bench, a, b[j], depth, other_depth[j], known)
    clear_rows = {(free[row], column) for row, column in zip(*clear(rows), strict=True)}
    clear_columns = {(row, others[column]) for row, column in zip(*clear(columns), strict=True)}
    weights = {(row, column): float(rows[free.index(row), column]) for row, column in clear_rows}
    for row, column in sorted(clear_rows & clear_columns):
        node, other = int(a[row]), int(b[column])
        if not other_calls or known.stem[node] == known.other_stem[other]:
            pairs.add(node, other, Evidence.INSIDE, weights[row, column])
            note(pairs, node, other)


@settings(max_examples=costly_examples(70))
@given(RANDOMS)
def test_what_is_clear_among_all_of_two_lists_is_paired_across_others(random: Random) -> None:
    both = some_both(random, 10, 0.3)
    nodes = [[*range(1, len(side))] for side in (both.left, both.right)]
    depths = [numbers(*(0 for _ in some)) for some in nodes]
    items = numbers(*nodes[0]), numbers(*nodes[1]), depths[0], depths[1]
    other_calls = random.random() < 0.6
    check(
        both,
        lambda pairs: _pair_traded(pairs, *items, other_calls=other_calls),
        lambda pairs: plain_traded(pairs, items, other_calls=other_calls),
    )


def plain_moved(pairs: Pairs, both: Both, items: tuple[Int, Int, Int, Int]) -> None:
    a, b, depth, other_depth = items
    i = numbers(*(one for one in range(len(a)) if pairs.partner[a[one]] < 0))
    j = numbers(*(one for one in range(len(b)) if pairs.back[b[one]] < 0))
    weighs = [
        [side.weights_below(int(node)) > 0 for node in nodes]
        for side, nodes in ((both.left, a[i]), (both.right, b[j]))
    ]
    if min(len(i), len(j)) < 4 or min(map(sum, weighs)) < 4:
        return
    score = scores(pairs.npu, pairs.bench, a[i], b[j], depth[i], other_depth[j], pairs.known)
    rows, columns, _ = decide(np.where(score >= 4.0, score, IMPOSSIBLE))
    if sum(weighs[0][row] for row in rows.tolist()) < 0.75 * min(map(sum, weighs)):
        return
    chosen = np.zeros(score.shape, dtype=bool)
    chosen[rows, columns] = True
    in_order = order_tells(pairs, a[i], b[j])
    possible = chosen if pairs.known.one_code else None
    places = a[i], b[j], depth[i], other_depth[j]
    plain_gap(pairs, *places, possible, in_order=in_order, chosen=chosen)


@settings(max_examples=costly_examples(50))
@given(RANDOMS)
def test_most_of_what_is_left_may_go_together_as_one_block(random: Random) -> None:
    """Four modules with weights at least, and three quarters of those that one side has."""
    count = random.randint(2, 6)
    nodes = [Node(), *(
        Node(
            f"Module.{random.choice('abc')}{place}.Part",
            parameters=(random.choice(PALETTE),) if random.random() < 0.8 else (),
            inputs=(random.choice(PALETTE),),
            outputs=(random.choice(PALETTE),),
        )
        for place in range(count)
    )]  # fmt: skip
    left = Plain(nodes)
    right = altered(random, left, random.choice([0.0, 0.1, 0.3]))
    chosen = some_pairs(random, left, right, random.choice([0.0, 0.2]))
    is_one, trust = random.random() < 0.5, random.choice([Trust(), trusted()])
    both = both_of(left, right, chosen, trust=trust, one_code=is_one)
    both.pairs.npu.parameters_below[1, 0] = left.weights_below(0)
    sides = [numbers(*range(1, len(side))) for side in (left, right)]
    items = sides[0], sides[1], np.zeros_like(sides[0]), np.zeros_like(sides[1])
    check(
        both,
        lambda pairs: _pair_moved(pairs, *items),
        lambda pairs: plain_moved(pairs, both, items),
    )


def plain_equal(pairs: Pairs, both: Both, a: list[int], b: list[int]) -> None:
    free = [one for one in a if both.left[one].is_module and pairs.partner[one] < 0]
    others = [one for one in b if both.right[one].is_module and pairs.back[one] < 0]
    same = [
        (i, j)
        for i in free
        for j in others
        if level(both.left[i], both.right[j], "inputs") == 2
        and level(both.left[i], both.right[j], "outputs") == 2
    ]
    none = numbers(0)
    for i, j in same if pairs.known.trust.equal else []:
        if sum(one == i for one, _ in same) == sum(two == j for _, two in same) == 1:
            one, two = numbers(i), numbers(j)
            weight = scores(pairs.npu, pairs.bench, one, two, none, none, pairs.known)[0, 0]
            if weight > THRESHOLD and pairs.add(i, j, Evidence.INSIDE, float(weight)):
                note(pairs, i, j)


@settings(max_examples=costly_examples(50))
@given(RANDOMS)
def test_modules_that_alone_take_in_and_put_out_the_same_are_paired(random: Random) -> None:
    left = some_plain(random, 8, palette=PALETTE[:3], modules=0.9)
    right = altered(random, left, 0.3)
    trust = trusted() if random.random() < 0.9 else Trust()
    both = both_of(left, right, some_pairs(random, left, right, 0.3, alike=True), trust=trust)
    a, b = [*range(1, len(left))], [*range(1, len(right))]
    check(
        both,
        lambda pairs: _pair_equal(pairs, numbers(*a), numbers(*b)),
        lambda pairs: plain_equal(pairs, both, a, b),
    )


def test_long_lists_are_aligned_by_equal_calls(monkeypatch: Any) -> None:
    """Modules among them wait for what they hold."""
    random = Seeded(1)
    nodes = [Node(f"Torch.op{one % 3}", operator=one % 3, kind=Kind.API) for one in range(9)]
    plain = Plain([Node(), Node("Module.a.Part", outputs=UNKNOWN[:1]), *nodes])
    both = both_of(plain, plain)
    monkeypatch.setattr(inside, "_LARGEST", 20)
    items = free_items(random, both)
    pair_gap(both.pairs, *items)
    assert both.partners == {0: 0} | {one: one for one in range(2, 11)}
    assert (both.pairs.weight[2:] == 5.0).all()


def test_of_what_could_be_exchanged_the_five_likeliest_are_kept() -> None:
    calls = [Node("Torch.op", operator=0, kind=Kind.API, outputs=UNKNOWN[:1]) for _ in range(7)]
    plain = Plain([Node(), *calls])
    both = both_of(plain, plain)
    places = numbers(*range(1, 8))
    none = np.zeros_like(places)
    pair_gap(both.pairs, places, places, none, none, in_order=False)
    assert both.partners == {0: 0}
    assert all({*map(len, one.values())} == {5} for one in both.pairs.open)
