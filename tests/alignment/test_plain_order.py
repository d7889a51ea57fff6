"""What order and flow tell of all calls, one pair of calls after the other."""

from __future__ import annotations

from itertools import product
from math import log
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from msprobe_builder.align.evidence.scores import THRESHOLD
from msprobe_builder.align.evidence.trust import Trust
from msprobe_builder.align.pairing.order_and_flow import (
    _alike,
    _exchangeable,
    _shifted,
    _waits,
    likely_pairs,
    pair_by_order_and_flow,
)
from tests.alignment.drawn_sides import UNKNOWN, some_plain
from tests.alignment.plain_flows import PlainFlow, some_flow
from tests.alignment.plain_pairs import numbers
from tests.alignment.plain_sides import Both, Plain, both_of, elements, shapes
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS, Seeded

Int = NDArray[np.int64]
Float = NDArray[np.float64]
TRUSTS = (Trust(), Trust(same_shapes=False), Trust(same_sizes=False, same_shapes=False))


def same_extent(trust: Trust, one: Any, other: Any) -> bool:
    if trust.same_shapes:
        return shapes(one) == shapes(other)
    if trust.same_sizes:
        return elements(one) == elements(other)
    # A tensor without dimensions adds nothing to them.
    ranks = [sorted(len(each["shape"]) for each in part if each["shape"]) for part in (one, other)]
    return ranks[0] == ranks[1]


def plainly_alike(both: Both, i: int, j: int) -> float:
    known = both.pairs.known
    one, other, trust = both.left[i], both.right[j], known.trust
    are_products = {one.operator, other.operator} <= {*known.products.tolist()}
    total = 0.4 * (one.arguments == other.arguments)
    if same_extent(trust, one.outputs, other.outputs):
        total += 1.5
    elif elements(one.outputs) == elements(other.outputs):
        total += 0.5
    else:
        total -= 6.0 if trust.same_sizes else 1.0
    if same_extent(trust, one.inputs, other.inputs):
        total += 0.8
    elif elements(one.inputs) == elements(other.inputs):
        total += 0.3
    else:
        total -= 0.3 if are_products or not trust.same_sizes else 2.0
    sites = int(known.site[i]), int(known.other_site[j])
    if 0 not in sites:
        total += 1.0 if sites[0] == sites[1] else -4.0
    hosts = both.left.host(i), both.right.host(j)
    if 0 not in hosts:
        said = known.words.said(numbers(hosts[0]), known.other_words, numbers(hosts[1]))
        total += 0.7 * float(said[0, 0])
    return total + (1.5 if one.operator == other.operator else 0.5 if are_products else -30.0)


@settings(max_examples=costly_examples(50))
@given(RANDOMS)
def test_calls_are_alike_by_what_they_do_and_of_what_extent(random: Random) -> None:
    left, right = some_plain(random), some_plain(random)
    products = numbers(*random.choice([(), (0, 1), (0, 1, 2)]))
    sites = [np.array(random.choices([0, 0, 1, 2], k=len(side))) for side in (left, right)]
    trust = random.choice(TRUSTS)
    facts: dict[str, Any] = {"site": sites[0], "other_site": sites[1]}
    both = both_of(left, right, trust=trust, products=products, **facts)
    calls = [[one for one in range(len(side)) if side[one].operator >= 0] for side in (left, right)]
    a, b = (numbers(*one) for one in calls)
    if not len(a) or not len(b):
        return
    found = _alike(both.pairs, a, b)
    for (row, i), (column, j) in product(enumerate(calls[0]), enumerate(calls[1])):
        assert abs(found[row, column] - plainly_alike(both, i, j)) < 1e-9


def drawn_makers(random: Random, size: int) -> Int:
    return np.array([[random.randint(-1, node - 1) for node in range(size)] for _ in range(2)])


def plainly_comes_of(plain: Plain, nodes: list[int], makers: Int) -> set[tuple[int, int]]:
    """Pairs of places of which the first comes of the second."""

    def like(place: int) -> object:
        return plain[nodes[place]].operator, shapes(plain[nodes[place]].inputs)

    found: set[tuple[int, int]] = set()
    for place in range(len(nodes)):
        makes = [int(one) for one in makers[:, place] if one >= 0]
        if not makes:
            before = [one for one in range(place) if like(one) != like(place)]
            run = place
            while run and like(run - 1) == like(place):
                run -= 1
            makes = [run - 1] if run and before else []
        for one in makes:
            found |= {(place, one)} | {(place, far) for near, far in found if near == one}
    return found


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_of_two_calls_one_waits_where_it_comes_of_the_other(random: Random) -> None:
    plain = some_plain(random, 12, palette=UNKNOWN[:2], operators=2)
    nodes = [one for one in range(len(plain)) if plain[one].operator >= 0]
    makers = drawn_makers(random, len(nodes))
    makers[:, [random.random() < 0.6 for _ in nodes]] = -1
    found = _waits(plain.traits(), numbers(*nodes), makers)
    comes = plainly_comes_of(plain, nodes, makers)
    for one, other in product(range(len(nodes)), repeat=2):
        assert found[one, other] == ((one, other) in comes or (other, one) in comes)


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_pairs_are_exchangeable_that_could_be_made_as_well_and_need_not_wait(
    random: Random,
) -> None:
    size = random.randint(1, 5)
    local = np.array(random.choices([0.0, 0.6, 0.7, 1.4, 2.0], k=size * size)).reshape(size, size)
    rows = np.array(sorted(random.sample(range(size), random.randint(1, size))))
    columns = np.array(sorted(random.sample(range(size), len(rows))))
    waits = [np.array([[random.random() < 0.3] * size for _ in range(size)]) for _ in "ab"]
    waits = [one | one.T for one in waits]
    found = _exchangeable(local, rows, columns, (waits[0], waits[1]))
    pairs = [*zip(rows.tolist(), columns.tolist(), strict=True)]
    for place, (i, j) in enumerate(pairs):
        expected = any(
            (k, m) != (i, j)
            and local[i, m] + local[k, j] > local[i, j] + local[k, m] - 1.4
            and not (waits[0][i, k] and waits[1][j, m] and (i < k) == (j < m))
            for k, m in pairs
        )
        assert found[place] == expected


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_pairs_between_calls_left_on_both_sides_that_are_like_them_may_be_shifted(
    random: Random,
) -> None:
    size = random.randint(2, 5)
    alike = np.array(random.choices([0.0, 1.4, 2.0], k=size * size)).reshape(size, size)
    rows = np.array(sorted(random.sample(range(size), random.randint(1, size))))
    columns = np.array(sorted(random.sample(range(size), len(rows))))
    found = np.zeros((size, size))
    found[rows, columns] = 0.9
    kept = random.random() < 0.5  # what is likely to have a partner is not left
    for row in set(range(size)) - {*rows.tolist()} if kept else ():
        found[row] = 0.4 / size * random.choice([0, 1])
    shifted = _shifted(alike, found, rows, columns)
    left, others = (
        [one for one in range(size) if found.sum(axis=axis)[one] < 0.3] for axis in (1, 0)
    )
    for place, (i, j) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
        assert shifted[place] == any(
            min(alike[row, j], alike[i, column], alike[row, column]) > alike[i, j] - 0.7
            and (i < row) != (j < column)
            for row, column in product(left, others)
        )


# -- all calls of a micro-step ------------------------------------------------------------


def computed_by(plain: Plain, flow: PlainFlow, moving: set[int], nodes: list[int]) -> Int:
    """By place of two, who of some calls computed what each takes in; -1 for none of them."""
    result = np.full((2, len(nodes)), -1)
    for column, node in enumerate(nodes):
        for place, maker in enumerate(flow.makers(node)[:2]):
            far = maker
            while far >= 0 and plain[far].operator in moving:
                far = (flow.makers(far) or [-1])[0]
            result[place, column] = nodes.index(far) if far in nodes else -1
    return result


def ways(makers: Int) -> Float:
    def way(node: int) -> int:
        return 1 + max((way(one) for one in makers[:, node].tolist() if one >= 0), default=0)

    found = [way(node) for node in range(makers.shape[1])]
    return np.array(found) / max(found)


def plainly_found(
    both: Both, flows: tuple[PlainFlow, PlainFlow], *, alone: bool
) -> dict[tuple[int, int], float]:
    """Three times what is left, in each micro-step."""
    moving = {*both.pairs.known.moving.tolist()}
    sides = both.left, both.right
    found: dict[tuple[int, int], float] = {}
    for step in range(min(max(one.micro_step for one in side.nodes) + 1 for side in sides)):
        a, b = (
            [
                node
                for node in range(len(side))
                if side.leaf(node)
                and side[node].operator >= 0
                and side[node].operator not in moving
                and side[node].micro_step == step
            ]
            for side in sides
        )
        if not a or not b:
            continue
        makers = [
            computed_by(side, flow, moving, nodes)
            for side, flow, nodes in zip(sides, flows, (a, b), strict=True)
        ]
        local = np.array([[plainly_alike(both, i, j) for j in b] for i in a])
        alike = local.copy()
        if all((one[0] >= 0).sum() > 0.5 * one.shape[1] for one in makers):
            for i, j in product(range(len(a)), range(len(b))):
                far = abs(ways(makers[0])[i] - ways(makers[1])[j])
                local[i, j] -= 12.0 * max(far - 0.06, 0.0)
        elif not alone:
            continue
        likely = np.zeros(local.shape)
        for _ in range(3):
            rest, others = (np.flatnonzero(likely.sum(axis=axis) < 0.5) for axis in (1, 0))
            if not len(rest) or not len(others):
                break
            open_ = np.ix_(rest, others)
            likely[open_] = likely_pairs(local[open_])
        rows, columns = np.nonzero(likely >= 0.6)
        if flows[0].flow.is_guessed:
            waits = [
                _waits(side.traits(), numbers(*nodes), one)
                for side, nodes, one in zip(sides, (a, b), makers, strict=True)
            ]
            told = ~_exchangeable(local, rows, columns, (waits[0], waits[1]))
            told &= ~_shifted(alike, likely, rows, columns)
            rows, columns = rows[told], columns[told]
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            found[a[row], b[column]] = min(float(likely[row, column]), 1 - 1e-6)
    return found


@settings(max_examples=costly_examples(80))
@given(RANDOMS)
def test_the_guess_of_order_and_flow_is_made_in_rounds(random: Random) -> None:
    """Without modules on one side these are pairs, and what moves elements goes with them."""
    facts: dict[str, Any] = {"steps": 2, "modules": random.choice([0.0, 0.5])}
    left = some_plain(random, 9, palette=UNKNOWN[:2], **facts)
    right = left if random.random() < 0.6 else some_plain(random, 9, palette=UNKNOWN, **facts)
    is_guessed = random.random() < 0.3
    flows = [some_flow(random, side, 0.9, is_guessed=is_guessed) for side in (left, right)]
    if right is left and random.random() < 0.7:
        flows[1] = flows[0]
    sites = [np.array(random.choices([0, 0, 1, 2], k=len(side))) for side in (left, right)]
    facts = {"site": sites[0], "other_site": sites[1]}
    facts |= {"products": numbers(*random.choice([(), (1, 2)]))}
    both = both_of(left, right, moving=numbers(*random.choice([(), (0,)])), **facts)
    alone = not all(any(map(side.module, range(len(side)))) for side in (left, right))
    expected = plainly_found(both, (flows[0], flows[1]), alone=alone)
    pair_by_order_and_flow(both.pairs, flows[0].flow, flows[1].flow)
    if not alone:
        guess = dict(expected.keys())
        known = both.pairs.known
        assert {i: j for i, j in enumerate(known.guess.tolist()) if j >= 0} == guess
        assert {i: j for j, i in enumerate(known.other_guess.tolist()) if i >= 0} == guess
        assert both.partners == {0: 0}
        return
    for (i, j), share in expected.items():
        assert both.pairs.partner[i] == j
        weight = max(THRESHOLD, THRESHOLD + log(share / (1 - share)))
        assert both.pairs.weight[i] == pytest.approx(weight, rel=1e-4)
    others = {i for i in both.partners if i and (i, both.partners[i]) not in expected}
    assert not is_guessed or not others
    assert all(both.left[i].operator in both.pairs.known.moving for i in others)


def test_nothing_is_guessed_where_values_tell() -> None:
    plain = some_plain(Seeded(3), palette=UNKNOWN)
    both = both_of(plain, plain, trust=Trust(equal=2.0))
    flow = some_flow(Seeded(3), plain, 1.0).flow
    pair_by_order_and_flow(both.pairs, flow, flow)
    assert (both.pairs.known.guess < 0).all()
    assert both.partners == {0: 0}
