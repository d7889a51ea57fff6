"""Networks that trade partners: who asks for whom, what goes with them, and whether more agree."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
from hypothesis import given, settings

from msprobe_builder.align.evidence.words import named
from msprobe_builder.align.pairing.edges import Edges, Kinds, behind, origins
from msprobe_builder.align.pairing.twins import (
    _claims,
    _gains,
    _go_alike,
    _hanging_together,
    _leaves_its_line,
    _told_by_takers,
    _traded,
    doubt_twins,
    modules_apart,
    trade_twins,
)
from msprobe_builder.base.codes import Evidence
from tests.alignment.drawn_flows import Drawn, Pair, thinned
from tests.alignment.drawn_sides import PALETTE, UNKNOWN, some_pairs, some_plain
from tests.alignment.plain_flows import some_flow
from tests.alignment.plain_sides import Plain, both_of, fresh
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS, Seeded


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_edges_are_who_made_what_and_who_takes_it_in(random: Random) -> None:
    drawn = Drawn(random)
    for side, plain in enumerate(drawn.sides):
        for node in range(len(plain)):
            assert drawn.edges[side].given.get(node, {}) == drawn.given(side, node)
            found = drawn.edges[side].taken.get(node, [])
            assert sorted(found) == sorted(drawn.takers(side, node))


def test_what_a_call_is_given_by_itself_is_no_edge() -> None:
    plain = some_plain(Seeded(1), palette=UNKNOWN, modules=0.0)
    flow = some_flow(Seeded(1), plain, 1.0).flow
    [(row, source)] = [(row, int(source)) for row, source in enumerate(flow.source) if source >= 0][
        :1
    ]
    flow.table.node[row] = flow.table.node[source]
    edges = Edges.of(flow, plain.traits(), frozenset())
    assert flow.table.node[row] not in edges.given
    assert all(one != maker for maker, taken in edges.taken.items() for one, _ in taken)


@settings(max_examples=costly_examples(100))
@given(RANDOMS)
def test_what_tensors_come_from_is_the_nearest_that_is_known(random: Random) -> None:
    drawn = thinned(random, Drawn(random, modules=random.choice([0.2, 0.6])), 0.3)
    pairs, edges, kinds = drawn.pairs, drawn.edges, drawn.kinds
    for side, (traits, partner) in enumerate(
        ((pairs.npu, pairs.partner), (pairs.bench, pairs.back))
    ):
        for node in range(1, len(traits)):
            found = behind(edges[side], traits, partner, node, kinds.maps)
            assert found == (drawn.behind(side, node) or set())
    for i, j in drawn.partner.items():
        assert [*origins(pairs, edges, i, j, kinds)] == [*drawn.origins(i, j)]
        for other in range(1, len(drawn.sides[1])):
            assert _go_alike(pairs, edges, i, other) == drawn.go_alike(i, other)


def test_what_lies_further_than_twelve_calls_is_not_known() -> None:
    drawn = Drawn(Seeded(5))
    drawn.partner, drawn.back, drawn.kinds = {}, {}, Kinds(frozenset(), frozenset(), frozenset({9}))
    edges = Edges({one: {0: (one - 1, 0)} for one in range(1, 40)}, {})
    side = some_plain(Seeded(2), 80, modules=0.0).traits()
    none = np.full(len(side), -1)
    for far, expected in ((11, True), (12, True), (13, False), (20, False)):
        partner = none.copy()
        partner[30 - far] = 1
        for maps in (frozenset[int](), frozenset({9})):
            assert behind(edges, side, partner, 30, maps) == ({30 - far} if expected else set())


@settings(max_examples=costly_examples(100))
@given(RANDOMS)
def test_calls_ask_for_those_that_flow_makes_neighbours(random: Random) -> None:
    drawn = Drawn(random)
    found = Counter(_claims(drawn.pairs, drawn.edges, drawn.kinds))
    expected: Counter[Pair] = Counter()
    for i, j in drawn.partner.items():
        if drawn.given(0, i):
            expected.update([*drawn.asked_for(i, j), *drawn.other_takers(i, j)])
    assert found == expected
    told = Counter(_told_by_takers(drawn.pairs, drawn.edges, drawn.kinds))
    assert told == Counter(drawn.told_by_takers())


def leaves_its_line(drawn: Drawn, i: int, j: int) -> bool:
    """Its old partner has its name and stands at its line, in a module of one name; the new not."""
    known, old = drawn.pairs.known, drawn.partner.get(i, -1)
    line = drawn.sites[0][i]
    if old < 0 or known.exact[i] != old or not line or drawn.sites[1][old] != line:
        return False
    if j >= 0 and drawn.sites[1][j] == line:
        return False
    above = [
        side[max(side[node].parent, 0)] for side, node in zip(drawn.sides, (i, old), strict=True)
    ]
    return (above[0].stem, above[0].call) == (above[1].stem, above[1].call)


def plainly_traded(drawn: Drawn, block: dict[int, int]) -> dict[int, int]:
    new = dict(block)
    for i, j in block.items():
        owner, lost = drawn.back.get(j, -1), drawn.partner.get(i, -1)
        if owner < 0 or owner in new:
            continue
        if drawn.pairs.asked[owner]:
            return {}
        is_free = lost >= 0 and lost not in block.values()
        new[owner] = lost if is_free and drawn.alike(owner, lost) else -1
    partners = [j for j in new.values() if j >= 0]
    is_twice = len({*partners}) < len(partners)
    leaves = any(leaves_its_line(drawn, i, j) for i, j in new.items())
    return {} if is_twice or leaves else new


@settings(max_examples=costly_examples(100))
@given(RANDOMS)
def test_with_two_calls_goes_what_hangs_together_with_them(random: Random) -> None:
    drawn = Drawn(random)
    pairs, edges, kinds = drawn.pairs, drawn.edges, drawn.kinds
    for i, j in {*_claims(pairs, edges, kinds)}:
        block = _hanging_together(pairs, edges, kinds, i, j)
        assert block[i] == j
        assert len({*block.values()}) == len(block)
        near = {
            pair
            for one, two in block.items()
            for pair in (*drawn.asked_for(one, two), *drawn.one_taker(one, two))
        }
        # All that is near belongs to it, unless it is a pair, is not alike, or belongs already.
        for one, two in near:
            is_in = one in block or two in block.values()
            assert is_in or drawn.partner.get(one) == two or not drawn.alike(one, two)
        for one, two in block.items():
            assert (one, two) == (i, j) or (drawn.alike(one, two) and (one, two) in near)
        new = plainly_traded(drawn, block)
        assert _traded(pairs, block) == new
        if new:
            assert _gains(pairs, edges, kinds, new) == drawn.gains(new)
            assert drawn.both.partners == drawn.partner, "trying changes nothing"
        for one in {*block}:
            assert _leaves_its_line(pairs, one, block[one]) == leaves_its_line(
                drawn, one, block[one]
            )


@settings(max_examples=costly_examples(100))
@given(RANDOMS)
def test_any_blocks_are_traded_with_what_loses_its_partners(random: Random) -> None:
    drawn = Drawn(random)
    nodes = random.sample(range(1, len(drawn.sides[0])), min(3, len(drawn.sides[0]) - 1))
    others = random.sample(range(1, len(drawn.sides[1])), min(3, len(drawn.sides[1]) - 1))
    block = dict(zip(nodes, others, strict=False))
    new = plainly_traded(drawn, block)
    assert _traded(drawn.pairs, block) == new
    if new:
        assert _gains(drawn.pairs, drawn.edges, drawn.kinds, new) == drawn.gains(new)


@settings(max_examples=costly_examples(100))
@given(RANDOMS)
def test_trades_are_made_only_where_more_neighbours_agree_until_none_is_left(
    random: Random,
) -> None:
    drawn = Drawn(random)
    pairs, edges, kinds = drawn.pairs, drawn.edges, drawn.kinds
    expected, total = 0, drawn.partner
    twin = fresh(pairs)
    for _ in range(8):
        changed = 0
        tried: set[Pair] = set()
        for i, j in [*_claims(twin, edges, kinds), *_told_by_takers(twin, edges, kinds)]:
            is_open = i not in total and j not in total.values()
            if (i, j) in tried or total.get(i) == j or is_open or not drawn.alike(i, j):
                continue
            block = _hanging_together(twin, edges, kinds, i, j)
            tried |= {*block.items()}
            new = _traded(twin, block)
            if new and _gains(twin, edges, kinds, new):
                total = {one: two for one, two in total.items() if one not in new}
                total |= {one: two for one, two in new.items() if two >= 0}
                twin.partner[:], twin.back[:] = -1, -1
                for one, two in total.items():
                    twin.partner[one], twin.back[two] = two, one
                twin.weight[[*new]], twin.evidence[[*new]] = 3.0, int(Evidence.INSIDE)
                changed += len(new)
        expected += changed
        if not changed:
            break
    assert trade_twins(pairs, edges, kinds) == expected
    assert drawn.both.partners == total
    assert (pairs.weight == twin.weight).all()
    assert (pairs.evidence == twin.evidence).all()


def said(drawn: Drawn, both: dict[int, int]) -> float:
    known = drawn.pairs.known
    parts = [
        known.words.said(
            named(drawn.pairs.npu, np.array([i])),
            known.other_words,
            named(drawn.pairs.bench, np.array([j])),
        )[0, 0]
        for i, j in both.items()
        if j >= 0
    ]
    return float(sum(parts) / max(len(parts), 1))


def is_network(plain: Plain, nodes: dict[int, int]) -> bool:
    """Modules that are no norms alone, or calls that do more than one thing."""
    modules = [plain[one] for one in nodes if plain[one].operator < 0]
    if modules:
        return not all(
            one.parameters and all(len(part["shape"]) == 1 for part in one.parameters)
            for one in modules
        )
    return len({plain[one].operator for one in nodes}) > 1


@settings(max_examples=costly_examples(150))
@given(RANDOMS)
def test_networks_that_would_trade_stay_grey_where_flow_is_guessed(random: Random) -> None:
    drawn = Drawn(random, modules=random.choice([0.3, 0.6]), twins=0.7)
    drawn.pairs.evidence[[random.random() < 0.2 for _ in drawn.pairs.evidence]] = 0
    pairs, edges, kinds = drawn.pairs, drawn.edges, drawn.kinds
    left = drawn.sides[0]
    doubted: set[int] = set()
    tried: set[Pair] = set()
    for i, j in [*_claims(pairs, edges, kinds)]:
        if (i, j) in tried or drawn.partner.get(i) == j or not drawn.alike(i, j):
            continue
        block = _hanging_together(pairs, edges, kinds, i, j)
        tried |= {*block.items()}
        new = _traded(pairs, block)
        old = {one: drawn.partner.get(one, -1) for one in new}
        is_better = bool(new) and is_network(left, new) and drawn.gains(new)
        if is_better and said(drawn, old) <= said(drawn, new) + 0.5:
            doubted |= {*new}
    automatic = {one for one in drawn.partner if one and pairs.evidence[one] > 0}
    grey = doubted & automatic
    for node in range(1, len(left)):
        held = [one for one in left.held[node] if left.leaf(one)]
        if left.module(node) and held and {*held} <= grey and node in automatic:
            grey = grey | {node}
    doubt_twins(pairs, edges, kinds)
    assert drawn.both.partners == {i: j for i, j in drawn.partner.items() if i not in grey}


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_modules_are_apart_where_most_calls_belong_to_others(random: Random) -> None:
    left = some_plain(random, 10, palette=PALETTE)
    right = left if random.random() < 0.5 else some_plain(random, 10, palette=PALETTE)
    chosen = some_pairs(random, left, right, 0.8, alike=True)
    if right is left:
        chosen = {one: random.choice([one, chosen[one]]) for one in chosen}
        chosen = {i: j for i, j in chosen.items() if [*chosen.values()].count(j) == 1}
    by_name = [one for one in chosen if random.random() < 0.2]
    both = both_of(left, right, chosen, by_name=by_name)
    expected = []
    for node in range(1, len(left)):
        if left.module(node) and node in chosen and node not in by_name:
            held = [one for one in left.held[node][1:] if left.leaf(one) and one in chosen]
            inside = [one for one in held if chosen[one] in right.held[chosen[node]][1:]]
            if 2 * len(inside) < len(held):
                expected.append(node)
    assert modules_apart(both.pairs) == expected
