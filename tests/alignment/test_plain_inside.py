"""Pairing what two modules hold: what is opened, what is left open, what stands in no gap."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings
from numpy.typing import NDArray

from msprobe_builder.align.evidence.scores import Trust
from msprobe_builder.align.pairing.inside import (
    Lists,
    _has_work,
    _look_alike,
    _open,
    _open_largest,
    _open_unequalled,
    _parallel,
)
from tests.alignment.drawn_sides import PALETTE, UNKNOWN, altered, some_pairs, some_plain, trusted
from tests.alignment.plain_pairs import numbers, some_both, some_flags
from tests.alignment.plain_sides import (
    Both,
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


# -- lists without a question ------------------------------------------------------------


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
    if b and random.random() < 0.2:  # the counterpart of one belongs to what is elsewhere
        chosen = {random.randrange(1, len(left)): random.choice(b)}
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
