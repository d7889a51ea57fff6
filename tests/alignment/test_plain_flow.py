"""What flow shows by itself: who alone is given or taken in at a place, and who moves what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings

from msprobe_builder.align.evidence.flow import guessed
from msprobe_builder.align.pairing.across import around
from msprobe_builder.align.pairing.by_flow import (
    _computed_by,
    _match,
    by_flow,
    take_back_moved,
)
from msprobe_builder.align.pairing.edges import Edges, Kinds
from msprobe_builder.align.pairing.twins import doubt_twins, trade_twins
from msprobe_builder.match.matching import Group
from tests.alignment.drawn_flows import Drawn, Pair, thinned
from tests.alignment.drawn_sides import trusted
from tests.alignment.plain_pairs import numbers
from tests.alignment.plain_sides import elements, fresh, shapes
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS, Seeded


def takes_more(drawn: Drawn, i: int, j: int) -> bool:
    """More tensors on one side, and of those more elements than one each."""
    one, other = drawn.sides[0][i].inputs, drawn.sides[1][j].inputs
    tensors, size = len(one) - len(other), elements(one) - elements(other)
    return tensors * size > 0 and abs(size) > abs(tensors)


def votes_of(drawn: Drawn, moving: set[int]) -> set[Pair]:
    """Calls without partners that a pair is given, or that take it in, at one place."""
    asked: set[Pair] = set()
    for i, j in drawn.partner.items():
        if not drawn.sides[0].leaf(i):
            continue
        given = drawn.given(0, i), drawn.given(1, j)
        if drawn.operator(0, i) in drawn.kinds.commuting:
            makers = [{maker for maker, _ in one.values()} for one in given]
            left, right = drawn.apart(makers[0], makers[1])
            if len(makers[0]) == len(makers[1]) and len(left) == len(right) == 1:
                asked.add((left.pop(), right.pop()))
        else:
            for place in given[0].keys() & given[1].keys():
                (one, output), (two, other) = given[0][place], given[1][place]
                asked |= {(one, two)} if output == other else set()
        asked |= {
            pair
            for pair in drawn.one_taker(i, j)
            if pair[0] not in drawn.partner and pair[1] not in drawn.back
        }
    return {
        (i, j)
        for i, j in asked
        if i not in drawn.partner
        and j not in drawn.back
        and drawn.operator(0, i) == drawn.operator(1, j)
        and (drawn.operator(0, i) in moving or not takes_more(drawn, i, j))
        and shapes(drawn.sides[0][i].outputs) == shapes(drawn.sides[1][j].outputs)
    }


def matched(drawn: Drawn, votes: set[Pair]) -> dict[int, int]:
    """Those that nobody else is asked for, in each other's surroundings."""
    rows, columns = Counter(i for i, _ in votes), Counter(j for _, j in votes)
    alone = [(i, j) for i, j in votes if rows[i] == columns[j] == 1]
    return {
        i: j
        for i, j in alone
        if around(drawn.pairs, numbers(i), numbers(j)).all() and (i, j) not in drawn.pairs.denied
    }


@settings(max_examples=costly_examples(120))
@given(RANDOMS)
def test_calls_are_pairs_that_alone_are_given_or_taken_in_at_one_place(random: Random) -> None:
    drawn = thinned(random, Drawn(random))
    moving = set(random.choice([(), (0,)]))
    drawn.pairs.known.moving = numbers(*moving)
    expected = matched(drawn, votes_of(drawn, moving))
    flows = drawn.flows[0].flow, drawn.flows[1].flow
    found = _match(drawn.pairs, drawn.edges, flows, drawn.kinds.commuting)
    assert found == len(expected)
    assert drawn.both.partners == drawn.partner | expected
    assert all(drawn.pairs.weight[i] == 3.0 for i in expected)


OPERATORS = {"linear": 0, "add": 1, "view": 2}


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_what_follows_is_looked_for_until_nothing_does(random: Random) -> None:
    """Networks trade in between; where all calls have partners they do nothing else."""
    drawn = thinned(random, Drawn(random, known=random.choice([0.9, 0.9, 0.0])))
    if random.random() < 0.2:
        drawn.forget(random.randrange(2))
    drawn.kinds = Kinds.of(OPERATORS)
    drawn.edges = (
        Edges.of(drawn.flows[0].flow, drawn.pairs.npu, drawn.kinds.commuting),
        Edges.of(drawn.flows[1].flow, drawn.pairs.bench, drawn.kinds.commuting),
    )
    is_complete = random.random() < 0.3
    twin, flows = fresh(drawn.pairs), (drawn.flows[0].flow, drawn.flows[1].flow)
    expected = 0

    def all_that_follows() -> int:
        found = 0
        for _ in range(8):
            more = _match(twin, drawn.edges, flows, drawn.kinds.commuting)
            found += more
            if not more:
                break
        return found

    if drawn.flows[0].given and drawn.flows[1].given:
        expected = 0 if is_complete else all_that_follows()
        expected += trade_twins(twin, drawn.edges, drawn.kinds)
        expected += 0 if is_complete else all_that_follows()
    elif not is_complete:
        again = [
            guessed(side, flow, numbers())
            for side, flow in zip((twin.npu, twin.bench), flows, strict=True)
        ]
        edges = [
            Edges.of(flow, side, drawn.kinds.commuting)
            for flow, side in zip(again, (twin.npu, twin.bench), strict=True)
        ]
        doubt_twins(twin, (edges[0], edges[1]), drawn.kinds)
    assert by_flow(drawn.pairs, *flows, OPERATORS, is_complete=is_complete) == expected
    assert drawn.pairs.partner.tolist() == twin.partner.tolist()
    assert drawn.pairs.weight.tolist() == twin.weight.tolist()


def test_flow_says_nothing_where_values_tell() -> None:
    drawn = thinned(Seeded(4), Drawn(Seeded(4)))
    drawn.pairs.known.trust = trusted()
    flows = drawn.flows[0].flow, drawn.flows[1].flow
    assert by_flow(drawn.pairs, *flows, OPERATORS, is_complete=False) == 0
    take_back_moved(drawn.pairs, *flows, OPERATORS, [])
    assert drawn.both.partners == drawn.partner


def computed(drawn: Drawn, side: int, node: int, moving: set[int]) -> int:
    """Who computed what is first in what a leaf takes in, twelve moves away at most."""

    def first(one: int) -> int:
        return (
            drawn.flows[side].given.get((one, 0), (-1, 0))[0] if drawn.sides[side].leaf(one) else -1
        )

    found = first(node)
    while found >= 0 and drawn.operator(side, found) in moving:
        found = first(found)
    return found


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_moving_calls_stay_where_what_they_move_was_put_out_by_a_pair(random: Random) -> None:
    """Or by calls of one group, or by two without partners."""
    drawn = thinned(random, Drawn(random), 0.2)
    by_name = [one for one in drawn.partner if random.random() < 0.2]
    drawn.pairs.evidence[by_name] = 0
    first = random.randrange(2)
    operators = {"view": first, random.choice(["linear", "add"]): 1 - first}
    moving = {operators["view"]}
    flows = drawn.flows[0].flow, drawn.flows[1].flow
    groups = some_groups(random, drawn)
    for side, flow in enumerate(flows):
        is_moving = np.isin(
            drawn.pairs.npu.operator if not side else drawn.pairs.bench.operator, [*moving]
        )
        found = _computed_by(flow, is_moving)
        for node in range(len(drawn.sides[side])):
            assert found[node] == computed(drawn, side, node, moving)

    def made(side: int, node: int) -> int:
        """Who computed it; a sum that one side makes alone is seen through."""
        maker = computed(drawn, side, node, moving)
        has_partner = maker in (drawn.partner, drawn.back)[side]
        in_group = any(maker in (one.npu, one.bench)[side] for one in groups)
        is_sum = maker >= 0 and drawn.operator(side, maker) == operators.get("add")
        before = computed(drawn, side, maker, moving) if is_sum else -1
        return before if before >= 0 and not has_partner and not in_group else maker

    expected = dict(drawn.partner)
    is_known = all((flow.source >= 0).any() for flow in flows)
    moved = [i for i in drawn.partner if drawn.operator(0, i) in moving]
    moved = [i for i in moved if drawn.sides[0].forward(i) and drawn.pairs.evidence[i]]
    for i in moved:
        maker, its = made(0, i), made(1, drawn.partner[i])
        if maker < 0 or its < 0:
            continue
        has_partner = maker in drawn.partner or its in drawn.back
        is_one = any(maker in one.npu and its in one.bench for one in groups)
        if has_partner and drawn.partner.get(maker) != its and not is_one:
            del expected[i]
    beside = beside_of(drawn, dict(expected), groups, moving)
    for i in moved:
        j = drawn.partner[i]
        # Where one side alone tells, no call that belongs to nobody may stand before the other.
        if i not in expected or not drawn.sides[1].leaf(j):
            continue
        maker, its = made(0, i), made(1, j)
        if maker >= 0 > its and maker in drawn.partner and beside(1, j)[0] is None:
            del expected[i]
        if its >= 0 > maker and its in drawn.back and beside(0, i)[0] is None:
            del expected[i]
    drawn.pairs.known.moving = numbers(*moving)
    if is_known:
        take_back_moved(drawn.pairs, *flows, operators, groups)
        assert drawn.both.partners == expected


def beside_of(
    drawn: Drawn, partner: dict[int, int], groups: list[Group], moving: set[int]
) -> Callable[[int, int], list[object]]:
    """What the leaf before and the one behind are called, moves without a name left out."""
    names: list[dict[int, object]] = [{}, {}]
    for i, j in partner.items():
        names[0][i] = names[1][j] = i
    for place, one in enumerate(groups):
        names[0] |= dict.fromkeys(one.npu, ("group", place))
        names[1] |= dict.fromkeys(one.bench, ("group", place))

    def beside(side: int, node: int) -> list[object]:
        plain = drawn.sides[side]
        seen = [
            one
            for one in range(len(plain))
            if plain.leaf(one) and (one in names[side] or drawn.operator(side, one) not in moving)
        ]
        place = seen.index(node)
        around = [seen[place - 1] if place else None, *seen[place + 1 : place + 2]]
        return [names[side].get(one) if one is not None else None for one in (*around, None)[:2]]

    return beside


def some_groups(random: Random, drawn: Drawn) -> list[Group]:
    groups: list[Group] = []
    free = [[one for one in range(1, len(side)) if random.random() < 0.5] for side in drawn.sides]
    while all(free) and len(groups) < 2:
        parts = [[one.pop() for _ in range(min(2, len(one)))] for one in free]
        groups.append(Group("linear", tuple(parts[0]), tuple(parts[1]), (), 1.0))
    return groups


@settings(max_examples=costly_examples(120))
@given(RANDOMS)
def test_where_nothing_tells_who_computed_what_a_neighbour_has_to_belong_to_the_other(
    random: Random,
) -> None:
    drawn = thinned(random, Drawn(random, known=random.choice([0.0, 0.9]), twins=0.0), 0.3)
    drawn.forget(random.randrange(2))
    drawn.pairs.evidence[[one for one in drawn.partner if random.random() < 0.1]] = 0
    moving = set(random.choice([(0,), (1,), (0, 1)]))
    drawn.pairs.known.moving = numbers(*moving)
    groups = some_groups(random, drawn) if random.random() < 0.5 else []
    beside = beside_of(drawn, drawn.partner, groups, moving)
    expected = dict(drawn.partner)
    for i, j in drawn.partner.items():
        is_moved = drawn.operator(0, i) in moving and drawn.pairs.evidence[i] > 0
        if is_moved and drawn.sides[0].leaf(i) and drawn.sides[1].leaf(j):
            both = [*zip(beside(0, i), beside(1, j), strict=True)]
            if not any(one is not None and one == other for one, other in both):
                del expected[i]
    flows = drawn.flows[0].flow, drawn.flows[1].flow
    take_back_moved(drawn.pairs, *flows, {"view": 0}, groups)
    # What belongs to nothing is asked for by name, and stays.
    kept = {i: j for i, j in drawn.partner.items() if drawn.pairs.asked[i]}
    assert drawn.both.partners == expected | kept


@pytest.mark.parametrize("side", [0, 1])
def test_both_sides_need_a_flow(side: int) -> None:
    [drawn, *_] = [
        one
        for one in (Drawn(Seeded(seed), known=1.0, twins=0.0) for seed in range(20))
        if one.flows[0].given and one.flows[1].given
    ]
    flows = [drawn.flows[0].flow, drawn.flows[1].flow]
    flows[side] = replace(flows[side], source=np.full_like(flows[side].source, -1))
    edges = [
        Edges.of(one, two, frozenset())
        for one, two in zip(flows, (drawn.pairs.npu, drawn.pairs.bench), strict=True)
    ]
    assert bool(edges[0].given) != bool(edges[1].given)
    twin = fresh(drawn.pairs)
    assert by_flow(twin, flows[0], flows[1], OPERATORS, is_complete=True) == 0
    assert twin.partner.tolist() == drawn.pairs.partner.tolist()
