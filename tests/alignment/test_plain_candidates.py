"""Who a node without a partner may belong to, what is the same alone, and what pairs keep."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from math import exp
from random import Random
from typing import Any, cast

import pytest
from hypothesis import given, settings

from msprobe_builder.align.evidence.scores import THRESHOLD
from msprobe_builder.align.pairing import offers
from msprobe_builder.align.pairing.offers import (
    _by_chances,
    _by_content,
    _by_forward,
    _by_place,
    _by_values,
    offer_candidates,
)
from msprobe_builder.align.pairing.pairs import note
from msprobe_builder.base.codes import Evidence
from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.graph.parameter_table import ParameterTable
from tests.alignment.drawn_sides import PALETTE, altered, some_pairs, some_plain, trusted
from tests.alignment.plain_sides import (
    Both,
    Node,
    Plain,
    both_of,
    elements,
    fresh,
    shapes,
)
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS, Seeded

Offers = dict[tuple[int, int, int], float]  # by side, node and the other


def offered(both: Both) -> Offers:
    return {
        (side, node, other): weight
        for side in (0, 1)
        for node, several in both.pairs.open[side].items()
        for other, weight in several
    }


def some_open(random: Random, both: Both) -> None:
    """An alignment has left some choices already."""
    for side, (own, other) in enumerate(((both.left, both.right), (both.right, both.left))):
        for node in range(1, len(own)):
            if random.random() < 0.2:
                one = random.randrange(1, len(other))
                both.pairs.open[side][node] = [(one, random.choice([1.6, 4.0]))]


def drawn(random: Random, size: int = 9, **facts: Any) -> Both:
    left = some_plain(random, size, palette=PALETTE[:4], operators=2, **facts)
    right = altered(random, left, 0.3)
    return both_of(left, right, some_pairs(random, left, right, 0.5, alike=True), trust=trusted())


@settings(max_examples=costly_examples(40))
@given(RANDOMS)
def test_what_order_and_flow_leave_possible_is_offered_where_both_are_free(random: Random) -> None:
    """It speaks for what is a candidate already."""
    both = drawn(random)
    some_open(random, both)
    expected = dict(offered(both))
    grid = [*product(range(1, len(both.left)), range(1, len(both.right)))]
    for i, j in random.sample(grid, min(len(grid), 20)):
        chance = random.choice([0.1, 0.5, 1.0])
        both.pairs.known.chances.append((i, j, chance))
        if i not in both.partners and j not in both.partners.values():
            for key in ((0, i, j), (1, j, i)):
                expected[key] = expected.get(key, THRESHOLD) + 2 * chance
    _by_chances(both.pairs)
    assert offered(both) == pytest.approx(expected)


def gaps(known: list[int], free: list[int]) -> dict[int, int]:
    """By free leaf between which of the known ones it stands; none of long stretches."""
    places = {one: sum(known_one < one for known_one in known) for one in free}
    counts = Counter(places.values())
    return {one: gap for one, gap in places.items() if counts[gap] <= 16}


@settings(max_examples=costly_examples(120))
@given(RANDOMS)
def test_what_stands_between_the_same_partners_is_offered(random: Random) -> None:
    """In the next gap as well, for half less; none of more than sixteen between two partners."""
    size = random.choice([9, 9, 40])
    left = some_plain(random, size, palette=PALETTE[:3], operators=2, steps=2, modules=0.2)
    right = left if random.random() < 0.5 else altered(random, left, 0.2)
    chosen = some_pairs(random, left, right, 0.15 if size > 9 else 0.5, alike=True)
    if right is left and random.random() < 0.7:
        chosen = {one: one for one in chosen}
    both = both_of(left, right, chosen)
    some_open(random, both)
    before = offered(both)
    has = {(side, node) for side, node, _ in before}
    partner = {i: j for i, j in both.partners.items() if i}
    steps = [1 + max(one.micro_step for one in side.nodes) for side in (left, right)]
    expected = dict(before)
    for step in range(min(steps)):
        leaves = [
            [one for one in range(len(side)) if side.leaf(one) and side[one].micro_step == step]
            for side in (left, right)
        ]
        matched = [(i, partner[i]) for i in leaves[0] if partner.get(i) in leaves[1]]
        known = [
            (i, j)
            for i, j in matched
            if all((i < one) == (j < two) for one, two in matched if one != i)
        ]
        here = gaps([i for i, _ in known], [i for i in leaves[0] if i not in partner])
        there = gaps([j for _, j in known], [j for j in leaves[1] if j not in partner.values()])
        for (i, gap), (j, other) in product(here.items(), there.items()):
            one, two = left[i], right[j]
            is_same = one.operator == two.operator
            as_much = elements(one.outputs) == elements(two.outputs)
            if abs(gap - other) > 1 or one.is_module != two.is_module or not (is_same or as_much):
                continue
            weight = float(is_same) + (shapes(one.outputs) == shapes(two.outputs)) - 1.0
            weight -= 0.5 * (gap != other)
            for side, node, its in ((0, i, j), (1, j, i)):
                if (side, node) not in has:
                    expected.setdefault((side, node, its), THRESHOLD + weight)
    _by_place(both.pairs)
    assert offered(both) == pytest.approx(expected)


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_backward_calls_are_offered_those_of_the_candidates(random: Random) -> None:
    both = drawn(random, backward=True)
    some_open(random, both)
    before = offered(both)

    def backward_of(plain: Plain, node: int) -> int | None:
        """The last one of its name and number; it belongs to the last forward call of these."""
        one = plain[node]
        own = [
            k
            for k in range(1, len(plain))
            if (plain[k].stem, plain[k].call) == (one.stem, one.call)
        ]
        calls = [k for k in own if plain[k].direction is Direction.FORWARD]
        found = [k for k in own if plain[k].direction is Direction.BACKWARD]
        return found[-1] if found and calls[-1:] == [node] else None

    expected = dict(before)
    sides = both.left, both.right
    partners = {*both.partners}, {*both.partners.values()}
    for side in (0, 1):
        for node, several in [*both.pairs.open[side].items()]:
            own = backward_of(sides[side], node)
            if own is None or own in partners[side]:
                continue
            expected = {key: one for key, one in expected.items() if key[:2] != (side, own)}
            for other, weight in several:
                its = backward_of(sides[1 - side], other)
                if its is not None:
                    expected[side, own, its] = weight
    _by_forward(both.pairs)
    assert offered(both) == pytest.approx(expected)


def test_a_first_call_that_was_asked_to_go_with_a_repeated_one_says_nothing_of_modules() -> None:
    def side(*, again: bool) -> Plain:
        call = Node("Torch.relu", 1, operator=0, kind=Kind.API, again=again)
        return Plain([Node(direction=Direction.NONE), Node("Module.a.Part", again=again), call])

    for left, right in ((False, True), (True, False), (False, False)):
        both = both_of(side(again=left), side(again=right), {2: 2}, asked=[2])
        _by_content(both.pairs)
        assert bool(offered(both)) == (not left and not right)


@settings(max_examples=costly_examples(40))
@given(RANDOMS)
def test_the_five_likeliest_are_kept(random: Random) -> None:
    """Before backward calls get those of their forward calls; these are all that is free here."""
    left = some_plain(random, 14, palette=PALETTE[:4], operators=2, backward=True)
    right = Plain([replace(one, direction=Direction.BACKWARD) for one in left.nodes])
    both = both_of(left, right)
    for side in (0, 1):
        for node in random.sample(range(1, len(left)), min(3, len(left) - 1)):
            others = random.sample(range(1, len(left)), min(8, len(left) - 1))
            weights = random.choices([1.6, 2.0, 4.0], k=len(others))
            both.pairs.open[side][node] = [*zip(others, weights, strict=True)]
    pairs = fresh(both.pairs)
    for several in (one for side in pairs.open for one in side.values()):
        several[:] = sorted(several, key=lambda one: (-one[1], one[0]))[:5]
    _by_forward(pairs)
    none = cast("ParameterTable", None)
    offer_candidates(both.pairs, none, none, ())
    assert both.pairs.open == pairs.open


def test_too_many_nodes_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = some_plain(Seeded(2), palette=PALETTE[:1], modules=0.0)
    both = both_of(plain, plain, trust=trusted())
    for largest, is_offered in ((10, False), (10_000, True)):
        monkeypatch.setattr(offers, "_LARGEST", largest)
        _by_values(both.pairs)
        assert bool(offered(both)) == is_offered
    both = both_of(plain, plain)
    _by_values(both.pairs)
    assert not offered(both), "values tell nothing"


# -- the pairs themselves ------------------------------------------------------------


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_candidates_are_as_likely_as_their_weights_beyond_that_of_none(random: Random) -> None:
    both = drawn(random)
    some_open(random, both)
    for side, other in ((0, both.right), (1, both.left)):
        for several in both.pairs.open[side].values():
            several += [(one, 2.0) for one in range(1, len(other)) if random.random() < 0.2]
    heavy = next(iter(both.pairs.open[0].values()), [])
    heavy[:] = [(one, 400.0) for one, _ in heavy]
    partners = {*both.partners}, {*both.partners.values()}
    for side in (0, 1):
        found = both.pairs.likely(side)
        expected = []
        for node in sorted(both.pairs.open[side]):
            free = [one for one in both.pairs.open[side][node] if one[0] not in partners[1 - side]]
            odds = [exp(min(weight - THRESHOLD, 50.0)) for _, weight in free]
            if node not in partners[side]:
                expected += [
                    (node, one, odd / (1 + sum(odds)))
                    for (one, _), odd in zip(free, odds, strict=True)
                ]
        columns = [getattr(found, name).tolist() for name in found.__dataclass_fields__]
        rows = [*zip(*columns, strict=True)]
        assert [row[:2] for row in rows] == [row[:2] for row in expected]
        assert [row[2] for row in rows] == pytest.approx([row[2] for row in expected])


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_a_pair_that_is_taken_back_stays_as_a_candidate(random: Random) -> None:
    """Unless it was asked for or has the same name; none that was taken back is made again."""
    both = drawn(random)
    some_open(random, both)
    pairs = both.pairs
    pairs.asked[[one for one in both.partners if random.random() < 0.2]] = True
    pairs.evidence[[one for one in both.partners if random.random() < 0.2]] = 0
    pairs.weight[:] = random.choice([1.0, 3.0])
    for i in range(1, len(both.left)):
        j, before = int(pairs.partner[i]), [{**one} for one in pairs.open]
        is_automatic = j >= 0 and not pairs.asked[i] and pairs.evidence[i] > 0
        for_good = random.random() < 0.7
        assert pairs.take_back(i, for_good=for_good) == is_automatic
        if not is_automatic:
            assert (pairs.partner[i], [*pairs.open]) == (j, before)
            continue
        assert (pairs.partner[i], pairs.back[j], pairs.evidence[i]) == (-1, -1, 0)
        weight = min(float(pairs.weight[i]), THRESHOLD)
        assert pairs.open[0][i] == before[0].get(i, [(j, weight)])
        assert pairs.open[1][j] == before[1].get(j, [(i, weight)])
        assert pairs.add(i, j, Evidence.INSIDE, 2.0) == (not for_good)


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_notes_are_of_modules_and_of_where_counters_stand(random: Random) -> None:
    both = drawn(random)
    known = both.pairs.known
    shift, stems, taken = {}, dict[int, int](), set()
    for _ in range(5):
        i, j = random.randrange(1, len(both.left)), random.randrange(1, len(both.right))
        one, two = int(known.stem[i]), int(known.other_stem[j])
        note(both.pairs, i, j)
        if one == two:
            shift[one] = both.left[i].call - both.right[j].call
        if both.left[i].is_module:
            stems = {one: two} | stems
            taken.add(two)
    assert (known.shift, known.stems, known.taken_stems) == (shift, stems, taken)
