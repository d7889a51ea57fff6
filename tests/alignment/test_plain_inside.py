"""Pairing what two modules hold: what is opened, what is left open, what stands in no gap."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings
from numpy.typing import NDArray

from msprobe_builder.align.evidence.trust import Trust
from msprobe_builder.align.pairing.alike import pair_alike
from msprobe_builder.align.pairing.inside import (
    _has_work,
    _open_largest,
    _open_unequalled,
    _parallel,
)
from msprobe_builder.align.pairing.lists import Items, Lists
from msprobe_builder.align.pairing.pairs import Pairs
from tests.alignment.drawn_sides import PALETTE, UNKNOWN, altered, some_pairs, some_plain, trusted
from tests.alignment.plain_pairs import (
    check,
    numbers,
    pair_plainly_alike,
    plainly_look_alike,
    some_both,
    some_flags,
)
from tests.alignment.plain_sides import (
    Node,
    Plain,
    both_of,
    elements,
    level,
    norm_of,
    shapes,
)
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS

Bool = NDArray[np.bool_]

# -- what is opened ------------------------------------------------------------


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
        assert lists.inside(numbers(node)).nodes.tolist() == held(node)
        free = [one for one in plain.held[node] if takes_part[one] and partner[one] < 0]
        assert _has_work(lists, partner)[node] == bool(free)
    hosts = random.sample(range(len(plain)), random.randint(1, len(plain)))
    found = lists.inside(numbers(*hosts))
    assert found.of.tolist() == [place for place, one in enumerate(hosts) for _ in held(one)]
    found = lists.opened(found, partner, dissolved)
    expected = [
        (place, *each)
        for place, host in enumerate(hosts)
        for one in held(host)
        for each in opened(one, 0)
    ]
    columns = found.of, found.nodes, found.depth
    assert [*zip(*(one.tolist() for one in columns), strict=True)] == expected
    for place in range(len(hosts)):
        of = [each[1:] for each in expected if each[0] == place]
        part = found.of_list(place)
        assert [*zip(part.nodes.tolist(), part.depth.tolist(), strict=True)] == of


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


# -- lists without a question ------------------------------------------------------------


def several(lists: list[list[int]]) -> Items:
    """Items of lists, none of them reached through a dissolved module."""
    of = [place for place, some in enumerate(lists) for _ in some]
    nodes = numbers(*(one for some in lists for one in some))
    return Items(nodes, np.zeros_like(nodes), numbers(*of))


@settings(max_examples=costly_examples(70))
@given(RANDOMS)
def test_lists_that_look_alike_item_by_item_are_matched_in_their_order(random: Random) -> None:
    """All lists of a level at once, and each by itself."""
    tells = random.random() < 0.5
    left = some_plain(random, 6, palette=PALETTE[:2] if tells else UNKNOWN[:2], modules=0.4)
    right = left if random.random() < 0.4 else altered(random, left, 0.1)
    chosen = some_pairs(random, left, right, 0.2, alike=True) if random.random() < 0.4 else {}
    hosts = [0, *(one for one in range(1, len(left)) if left[one].is_module)]
    lists = [left.children(one) for one in hosts]
    others = [right.children(one) if one < len(right) else [] for one in hosts]
    if random.random() < 0.6:
        both_first = zip(lists[0], others[0], strict=False)
        chosen = {one: two for one, two in both_first if random.random() < 0.3}
    if others[0] and random.random() < 0.2:  # the counterpart of one belongs to what is elsewhere
        chosen = {random.randrange(1, len(left)): random.choice(others[0])}
    trust = random.choice([Trust(), trusted(), Trust(same_shapes=False)])
    sites = [np.array(random.choices([0, 0, 0, 0, 1, 2], k=len(one))) for one in (left, right)]
    same_code, one_code = random.random() < 0.9, random.random() < 0.5
    both = both_of(
        left,
        right,
        chosen,
        trust=trust,
        site=sites[0],
        other_site=sites[1],
        same_code=same_code,
        one_code=one_code,
    )

    def plainly(pairs: Pairs) -> None:
        match = [plainly_look_alike(both, a, b) for a, b in zip(lists, others, strict=True)]
        for a, b, is_alike in zip(lists, others, match, strict=True):
            pair_plainly_alike(pairs, a, b, is_alike=is_alike)

    check(both, lambda pairs: pair_alike(pairs, several(lists), several(others)), plainly)


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
