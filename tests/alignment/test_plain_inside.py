"""Pairing what two modules hold: what is opened, what is left open, what stands in no gap."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings
from numpy.typing import NDArray

from msprobe_builder.align.evidence.scores import IMPOSSIBLE, THRESHOLD, Trust, scores
from msprobe_builder.align.pairing import inside
from msprobe_builder.align.pairing.fused_projections import pair_last
from msprobe_builder.align.pairing.inside import (
    Lists,
    _has_work,
    _look_alike,
    _open,
    _open_largest,
    _open_unequalled,
    _pair_equal,
    _pair_moved,
    _pair_traded,
    _parallel,
    pair_gap,
    pair_lists,
)
from msprobe_builder.align.pairing.pairs import Pairs, note
from msprobe_builder.align.pairing.repeated_calls import exchangeable, order_tells
from msprobe_builder.align.pairing.sequences import clear, decide
from msprobe_builder.align.pairing.unordered import (
    has_twins,
    named_apart,
    told_by_words,
    without_order,
)
from msprobe_builder.base.codes import Evidence
from msprobe_builder.dump.names import Kind
from msprobe_builder.match.sequence import longest_increasing
from tests.alignment.plain_sides import (
    PALETTE,
    UNKNOWN,
    Both,
    Node,
    Plain,
    altered,
    both_of,
    elements,
    fresh,
    level,
    norm_of,
    shapes,
    some_pairs,
    some_plain,
    trusted,
)
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS, Seeded

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


def numbers(*several: int) -> Int:
    return np.array(several, dtype=np.int64)


def some_flags(random: Random, count: int, share: float = 0.5) -> Bool:
    return np.array([random.random() < share for _ in range(count)], dtype=bool)


def some_both(
    random: Random, size: int = 8, share: float = 0.4, steps: int = 1, **facts: Any
) -> Both:
    """A program, and one like it or another one, with some pairs; numbers tell or not."""
    tells = random.random() < 0.5
    palette = PALETTE if tells else UNKNOWN
    left = some_plain(random, size, palette=palette, operators=2, steps=steps)
    is_like = random.random() < 0.7
    right = (
        altered(random, left) if is_like else some_plain(random, size, palette=palette, steps=steps)
    )
    chosen = some_pairs(random, left, right, share, alike=True)
    trust = trusted() if tells else random.choice([Trust(), Trust(same_shapes=False)])
    facts = {"trust": trust, "same_code": random.random() < 0.7} | facts
    facts = {"one_code": random.random() < 0.5} | facts
    asked = [one for one in chosen if random.random() < 0.1]
    both = both_of(left, right, chosen, asked=asked, **facts)
    for one in random.sample(range(1, len(left)), min(2, len(left) - 1)):
        both.pairs.denied.add((one, random.randrange(len(right))))
    return both


def state(pairs: Pairs) -> object:
    """All that pairing may change."""
    chosen = np.flatnonzero(pairs.partner >= 0)
    return (
        pairs.partner.tolist(),
        pairs.back.tolist(),
        pairs.evidence[chosen].tolist(),
        pairs.weight[chosen].round(9).tolist(),
        [{node: sorted(some) for node, some in one.items()} for one in pairs.open],
        pairs.denied,
        pairs.known.shift,
        pairs.known.stems,
        pairs.known.taken_stems,
    )


def check(both: Both, run: Callable[[Pairs], object], plainly: Callable[[Pairs], object]) -> None:
    """Both leave the same pairs, weights, candidates and notes."""
    other = fresh(both.pairs)
    run(both.pairs)
    plainly(other)
    assert state(both.pairs) == state(other)


# -- what is opened -------------------------------------------------------------------------------


def lists_of(plain: Plain, takes_part: Bool) -> Lists:
    return Lists.of(plain.traits(), takes_part)


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_modules_are_replaced_by_what_they_hold_at_any_depth(random: Random) -> None:
    plain = some_plain(random, 10, collections=True)
    takes_part = some_flags(random, len(plain), 0.8)
    takes_part[0] = False
    lists = lists_of(plain, takes_part)
    partner = np.array([random.choice([-1, -1, 3]) for _ in range(len(plain))])
    dissolved = some_flags(random, len(plain))

    def held(node: int) -> list[int]:
        return [one for one in range(1, len(plain)) if takes_part[one] and plain.host(one) == node]

    def opened(node: int, depth: int) -> list[tuple[int, int]]:
        if not dissolved[node] or partner[node] >= 0:
            return [(node, depth)]
        return [found for one in held(node) for found in opened(one, depth + 1)]

    for node in range(len(plain)):
        assert lists.inside(node).tolist() == held(node)
        free = [one for one in plain.held[node] if takes_part[one] and partner[one] < 0]
        assert _has_work(lists, partner)[node] == bool(free)
    items = held(0)
    depth = [random.randint(0, 1) for _ in items]
    found = _open(lists, numbers(*items), numbers(*depth), partner, dissolved)
    expected = [each for node, far in zip(items, depth, strict=True) for each in opened(node, far)]
    assert [*zip(*(one.tolist() for one in found), strict=True)] == expected


@settings(max_examples=costly_examples(80))
@given(RANDOMS)
def test_modules_with_far_more_parameters_than_any_of_the_others_are_opened(
    random: Random,
) -> None:
    """Unless one model has half as many again altogether, or they have weights of their own."""
    both = some_both(random, 9, 0.2)
    left, right, pairs = both.left, both.right, both.pairs
    a, b = (numbers(*range(1, len(side))) for side in (left, right))
    marks = some_flags(random, len(left), 0.1), some_flags(random, len(right), 0.1)
    expected = marks[0].copy(), marks[1].copy()
    totals = left.weights_below(0), right.weights_below(0)
    is_any = False
    if max(totals) <= 1.5 * min(totals):
        free = (
            [one for one in a.tolist() if left[one].is_module and pairs.partner[one] < 0],
            [one for one in b.tolist() if right[one].is_module and pairs.back[one] < 0],
        )
        for place, (own, other) in enumerate(((left, right), (right, left))):
            largest = max((other.weights_below(one) for one in free[1 - place]), default=0)
            for one in free[place]:
                if own.weights_below(one) > 1.5 * largest and not own[one].parameters:
                    expected[place][one] = is_any = True
    assert _open_unequalled(pairs, a, b, *marks) == is_any
    assert [one.tolist() for one in marks] == [one.tolist() for one in expected]


@settings(max_examples=costly_examples(80))
@given(RANDOMS)
def test_the_largest_without_a_partner_are_opened_first(random: Random) -> None:
    """By parameters; of those without any all with half as many nodes as the largest."""
    weighs = random.random() < 0.5
    sides = [some_plain(random, 10) for _ in range(2)]
    if not weighs:
        sides = [Plain([Node(one.stem, one.parent) for one in side.nodes]) for side in sides]
    chosen = [
        [one for one in range(1, len(side)) if side[one].is_module and random.random() < 0.7]
        for side in sides
    ]

    def size(side: Plain, node: int) -> float:
        share = (len(side.held[node]) - 1) / (len(side) + 1)
        return side.weights_below(node) or share

    everything = random.random() < 0.2
    sizes = [[size(side, one) for one in some] for side, some in zip(sides, chosen, strict=True)]
    largest = max([0.0, *sizes[0], *sizes[1]])
    least = 0.0 if everything else largest if largest >= 1 else largest / 2
    marks = [np.zeros(len(side), dtype=bool) for side in sides]
    lists = [lists_of(side, np.ones(len(side), dtype=bool)) for side in sides]
    _open_largest(*lists, *(numbers(*one) for one in chosen), *marks, everything)  # type: ignore[call-arg, arg-type]
    for mark, some, of in zip(marks, chosen, sizes, strict=True):
        opened = [one for one, its in zip(some, of, strict=True) if its >= least]
        assert np.flatnonzero(mark).tolist() == opened


# -- lists without a question ---------------------------------------------------------------------


def plainly_look_alike(both: Both, a: list[int], b: list[int]) -> bool:
    left, right, pairs, known = both.left, both.right, both.pairs, both.pairs.known
    if len(a) != len(b):
        return False
    differing = 0
    for i, j in zip(a, b, strict=True):
        one, other = left[i], right[j]
        its, there = int(pairs.partner[i]), int(pairs.back[j])
        if one.operator != other.operator or its not in (-1, j) or there not in (-1, i):
            return False
        sites = int(known.site[i]), int(known.other_site[j])
        if 0 not in sites and sites[0] != sites[1]:
            return False
        for section in ("inputs", "outputs", "parameters"):
            parts = getattr(one, section), getattr(other, section)
            same = [shapes(part) if known.trust.same_shapes else elements(part) for part in parts]
            if same[0] != same[1]:
                return False
        if one.operator < 0:
            operators = [
                sorted(side[call].operator for call in side.calls_below(node))
                for side, node in ((left, i), (right, j))
            ]
            said = known.words.do_other_things(numbers(i), known.other_words, numbers(j))
            if operators[0] != operators[1] or said.any():
                return False
        norms = norm_of(one.outputs), norm_of(other.outputs)
        is_known = not np.isnan(sum(norms)) and norms != (0.0, 0.0)
        differing += is_known and level(one, other, "outputs") < 2
    return not known.trust.equal or not differing


@settings(max_examples=costly_examples(70))
@given(RANDOMS)
def test_lists_look_alike_where_nothing_is_open_item_by_item(random: Random) -> None:
    tells = random.random() < 0.5
    left = some_plain(random, 4, palette=PALETTE[:2] if tells else UNKNOWN[:2], modules=0.4)
    right = left if random.random() < 0.4 else altered(random, left, 0.1)
    chosen = some_pairs(random, left, right, 0.2, alike=True) if random.random() < 0.4 else {}
    a, b = left.children(0), right.children(0)
    if random.random() < 0.6:
        chosen = {one: two for one, two in zip(a, b, strict=False) if random.random() < 0.3}
    trust = random.choice([Trust(), trusted(), Trust(same_shapes=False)])
    sites = [np.array(random.choices([0, 0, 0, 0, 1, 2], k=len(one))) for one in (left, right)]
    both = both_of(left, right, chosen, trust=trust, site=sites[0], other_site=sites[1])
    found = _look_alike(both.pairs, numbers(*a), numbers(*b))
    assert found == plainly_look_alike(both, a, b)


def plainly_parallel(plain: Plain, nodes: list[int]) -> list[bool]:
    same = [sum(level(plain[i], plain[j], "inputs") == 2 for j in nodes) > 1 for i in nodes]
    if not all(np.isnan(norm_of(plain[node].inputs)) for node in nodes):
        return same
    found = set[int]()
    keys = {node: (plain[node].operator, str(sorted(shapes(plain[node].inputs)))) for node in nodes}
    keys = {node: (key, sorted(shapes(plain[node].inputs).values())) for node, key in keys.items()}  # type: ignore[misc]
    last: list[tuple[Any, int]] = []
    for node in nodes:
        own = max(elements(plain[one].parameters) for one in plain.held[node])
        often = sum(keys[node] == one for one in keys.values())
        if often >= 8 or plain.weights_below(node) > own:
            continue
        before = [one for key, one in last if key == keys[node]][-1:]
        for one in before:
            between = [
                inner
                for inner in range(plain.held[one][-1] + 1, node)
                if node not in plain.held[inner]
            ]
            given_shape = shapes(plain[node].inputs)
            if all(shapes(plain[inner].outputs) != given_shape for inner in between):
                found |= {one, node}
        last.append((keys[node], node))
    return [node in found for node in nodes]


@settings(max_examples=costly_examples(70))
@given(RANDOMS)
def test_calls_are_parallel_that_are_given_one_tensor(random: Random) -> None:
    """Without numbers, such as may be: nothing between them puts out what the later takes in."""
    palette = random.choice([PALETTE, UNKNOWN[:2], UNKNOWN[:1]])
    modules = random.choice([0.2, 0.5])
    plain = some_plain(
        random, random.choice([6, 24]), palette=palette, operators=1, modules=modules
    )
    nodes = [one for one in range(1, len(plain)) if random.random() < 0.8]
    found = _parallel(plain.traits(), numbers(*nodes)).tolist()
    assert found == (plainly_parallel(plain, nodes) if nodes else [])


# -- one gap --------------------------------------------------------------------------------------


def plain_gap(
    pairs: Pairs,
    a: Int,
    b: Int,
    depth: Int,
    other_depth: Int,
    possible: Bool | None = None,
    *,
    in_order: bool = True,
    chosen: Bool | None = None,
) -> None:
    """What is decided and what order does not tell, pair by pair."""
    npu, bench = pairs.npu, pairs.bench
    score = scores(npu, bench, a, b, depth, other_depth, pairs.known)
    if possible is not None:
        score = np.where(possible, score, IMPOSSIBLE)
    rows, columns, _ = decide(score if chosen is None else np.where(chosen, score, IMPOSSIBLE))
    told = np.ones(len(rows), dtype=bool)
    if not in_order or not pairs.known.one_code:
        fast = np.ones(len(rows), dtype=bool)
        if not in_order:
            beside = _parallel(npu, a[rows]), _parallel(bench, b[columns])
            fast = np.array(
                [
                    npu.operator[a[row]] < 0 and not (beside[0][place] and beside[1][place])
                    for place, row in enumerate(rows)
                ],
                dtype=bool,
            )
        named = without_order(pairs, npu, a), without_order(pairs, bench, b)
        loops = named_apart(npu, a, around=True), named_apart(bench, b, around=True)
        said = told_by_words(pairs, a, b)
        told = ~exchangeable(score, rows, columns, fast, named, loops, said)
    matched: set[int] = set()
    taken: set[int] = set()
    for row, column, is_told in zip(rows.tolist(), columns.tolist(), told.tolist(), strict=True):
        if not is_told:
            score[row, column] += 0.5
            continue
        pairs.add(int(a[row]), int(b[column]), Evidence.INSIDE, float(score[row, column]))
        note(pairs, int(a[row]), int(b[column]))
        matched.add(row)
        taken.add(column)
    left = {
        (row, column): float(score[row, column])
        for row in range(len(a))
        for column in range(len(b))
        if row not in matched and column not in taken and score[row, column] > THRESHOLD
    }
    for row in {row for row, _ in left}:
        choices = sorted((-w, column) for (one, column), w in left.items() if one == row)[:5]
        pairs.open[0][int(a[row])] = [(int(b[column]), -weight) for weight, column in choices]
    for column in {column for _, column in left}:
        choices = sorted((-w, row) for (row, one), w in left.items() if one == column)[:5]
        pairs.open[1][int(b[column])] = [(int(a[row]), -weight) for weight, row in choices]


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


# -- lists, gap by gap ----------------------------------------------------------------------------


def increasing(values: list[int]) -> list[int]:
    """Places of a longest increasing sequence, of which the ends are as low as can be."""
    return [int(one) for one in longest_increasing(numbers(*values))]


def plain_lists(pairs: Pairs, items: tuple[Int, Int, Int, Int]) -> None:
    a, b, depth, other_depth = items
    known = pairs.known
    alike = _look_alike(pairs, a, b)
    if known.same_code and alike and not has_twins(pairs, a, b):
        for i, j in zip(a.tolist(), b.tolist(), strict=True):
            if pairs.partner[i] < 0 and pairs.back[j] < 0 and (i, j) not in pairs.denied:
                pairs.add(i, j, Evidence.INSIDE, 5.0)
                note(pairs, i, j)
        return
    for node in pair_last(pairs, a, b):
        note(pairs, node, int(pairs.partner[node]))
    places = [one.tolist() for one in (a, b)]
    matched = [
        (row, places[1].index(int(pairs.partner[node])))
        for row, node in enumerate(places[0])
        if int(pairs.partner[node]) in places[1]
    ]
    kept = [matched[one] for one in increasing([column for _, column in matched])]
    ends = [(-1, -1), *kept, (len(a), len(b))]
    gaps = [
        ([*range(one[0] + 1, two[0])], [*range(one[1] + 1, two[1])]) for one, two in pairwise(ends)
    ]
    gaps = [gap for gap in gaps if gap[0] and gap[1]]
    in_order = not gaps or order_tells(pairs, a, b)
    for rows, columns in gaps:
        i = numbers(*(row for row in rows if pairs.partner[a[row]] < 0))
        j = numbers(*(column for column in columns if pairs.back[b[column]] < 0))
        if len(i) and len(j):
            plain_gap(pairs, a[i], b[j], depth[i], other_depth[j], in_order=in_order)


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


# -- across pairs ---------------------------------------------------------------------------------


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
    other_calls = random.random() < 0.4
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
    facts = {"one_code": random.random() < 0.5}
    both = both_of(left, right, chosen, trust=random.choice([Trust(), trusted()]), **facts)
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
