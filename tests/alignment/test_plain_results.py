"""Modules known by the calls that make their results, one module after the other."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from msprobe_builder.align.evidence.trust import Trust
from msprobe_builder.align.pairing.across import around
from msprobe_builder.align.pairing.results import (
    _ends_agree,
    _results,
    pair_by_ends,
    take_back_other_results,
    take_back_other_values,
)
from msprobe_builder.base.codes import Evidence
from msprobe_builder.dump.names import Direction, Kind
from tests.alignment.drawn_sides import PALETTE, UNKNOWN, altered, some_pairs, some_plain, trusted
from tests.alignment.plain_pairs import numbers
from tests.alignment.plain_sides import Both, Node, Plain, both_of, elements, level, norm_of
from tests.alignment.test_traits import joined
from tests.builder.small_dumps import Record, tensor
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS

# Two that compute, and two that hand on or move what they are given.
OPERATORS = {"linear": 0, "relu": 1, "view": 2, "dropout": 3}
FORMS, MOVING = (2, 3), (2, 3)
FEW = (
    *(PALETTE[0], PALETTE[1], PALETTE[6], UNKNOWN[0]),
    *(tensor(norm, high=1.0, low=-1.0, shape=(8,)) for norm in (3.0, 4.0)),
)


def drawn(random: Random, size: int = 9, palette: tuple[Record, ...] = FEW, **facts: Any) -> Both:
    made: dict[str, Any] = {"palette": palette, "operators": 4, "steps": random.choice([1, 2])}
    made["backward"] = random.random() < 0.3
    left = some_plain(random, size, modules=0.5, **made)
    is_like = random.random() < 0.7
    right = altered(random, left, 0.15) if is_like else some_plain(random, size, **made)
    chosen = some_pairs(random, left, right, random.choice([0.5, 0.9]), alike=True)
    by_name = [one for one in chosen if random.random() < 0.2]
    hands_on = [np.array(random.choices([-1, -1, 0, 1], k=len(side))) for side in (left, right)]
    facts = {"hands_on": hands_on[0], "other_hands_on": hands_on[1]} | facts
    return both_of(left, right, chosen, by_name=by_name, **facts)


def last_calls(plain: Plain, module: int) -> list[int]:
    """The last eight of what a module holds that go forward and hold nothing, the last first."""
    inside = [one for one in plain.held[module] if one != module and plain.leaf(one)]
    leaves = [one for one in range(len(plain)) if plain.leaf(one)]
    behind = [one for one in leaves if one <= plain.held[module][-1]][-8:]
    return [one for one in inside if one in behind][::-1]


def makes_result(plain: Plain, module: int) -> list[int]:
    """The calls that put out what a module does; the last of its size where nothing is known."""
    if not any(plain.leaf(one) for one in range(len(plain))):
        return []
    if plain.held[module] == [module]:
        return [module]
    calls = [one for one in last_calls(plain, module) if plain[one].outputs]
    if not np.isnan(norm_of(plain[module].outputs)):
        return [one for one in calls if level(plain[one], plain[module], "outputs") == 2]
    last = [one for one in calls if plain[one].operator not in FORMS][:1]
    same = elements(plain[module].outputs)
    return [one for one in last if elements(plain[one].outputs) == same]


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_the_calls_that_make_a_result_are_among_the_last(random: Random) -> None:
    plain = drawn(random, random.choice([9, 24])).left
    modules = [one for one in range(1, len(plain)) if plain[one].is_module]
    found = _results(plain.traits(), numbers(*modules), numbers(*FORMS))
    for module, calls, makes in zip(modules, found.calls, found.makes, strict=True):
        assert sorted(calls[makes].tolist()) == sorted(makes_result(plain, module)), module


def puts_out_same(one: Plain, other: Plain, i: int, j: int, least: int = 2) -> bool:
    return level(one[i], other[j], "outputs") >= least


def is_other_result(both: Both, i: int, j: int, *, mirrored: bool) -> bool:
    """Whether what makes the result of one has its partner outside, which puts out another."""
    own, other = (both.right, both.left) if mirrored else (both.left, both.right)
    node, there = (j, i) if mirrored else (i, j)
    partner = both.partners
    if mirrored:
        partner = {two: one for one, two in partner.items()}
    found = [partner[one] for one in makes_result(own, node) if one in partner]
    wanted = makes_result(other, there)
    if found and wanted:
        return not any(
            one in other.held[there] or puts_out_same(other, other, one, two)
            for one in found
            for two in wanted
        )
    return more_is_done(other, there, found)


def more_is_done(other: Plain, there: int, found: list[int]) -> bool:
    """Without calls in the dump, where tensors are handed on at all as they are put out."""
    nodes = [one for one in range(len(other)) if other.forward(one)]
    if any(one.operator >= 0 for one in other.nodes) or not nodes:
        return False
    made = [norm_of(other[one].outputs) for one in nodes]
    handed = [any(norm_of(other[one].inputs) == norm for norm in made) for one in nodes]
    known = not np.isnan(norm_of(other[there].outputs))
    makes = bool(makes_result(other, there)) or not last_calls(other, there)
    if not found or not known or makes or sum(handed) < 0.2 * len(handed):
        return False
    return not any(puts_out_same(other, other, one, there, 1) for one in found)


def ends_of(plain: Plain, module: int) -> tuple[int, int]:
    """The first call that does more than hand on, and the last that makes the result."""
    works = [one for one in range(len(plain)) if plain.leaf(one)]
    works = [one for one in works if plain[one].operator not in FORMS]
    inside = [one for one in works if one in plain.held[module][1:]]
    makes = [one for one in makes_result(plain, module) if plain[one].operator not in FORMS]
    return (inside[0] if inside else -1), max(makes, default=-1) if works else -1


def paired_by_ends(both: Both) -> dict[int, int]:
    """Innermost first: free modules whose first and last calls are those of one free module."""
    sides, partner = (both.left, both.right), dict(both.partners)
    free: dict[tuple[int, int], list[int]] = {}
    for other in range(1, len(both.right)):
        holds = len(both.right.held[other]) > 1
        if both.right.module(other) and holds and other not in partner.values():
            free.setdefault(ends_of(both.right, other), []).append(other)
    for node in range(len(both.left) - 1, 0, -1):
        if not sides[0].module(node) or len(sides[0].held[node]) == 1 or node in both.partners:
            continue
        first, last = ends_of(both.left, node)
        ends = both.partners.get(first, -1), both.partners.get(last, -1)
        fits = free.get(ends, []) if min(first, last, *ends) >= 0 else []
        if len(fits) != 1 or fits[0] in partner.values():
            continue
        pairs = both_of(both.left, both.right, partner).pairs
        is_denied = (node, fits[0]) in both.pairs.denied
        if not is_denied and around(pairs, numbers(node), numbers(fits[0])).all():
            partner[node] = fits[0]
    return partner


@settings(max_examples=costly_examples(70))
@given(RANDOMS)
def test_modules_that_begin_and_end_with_the_same_calls_are_pairs(random: Random) -> None:
    both = drawn(random, 9, (PALETTE[0], UNKNOWN[0]))
    if random.random() < 0.8:  # the calls of one program, whose modules are still to be found
        plain = both.left
        shares = [0.95 if plain.leaf(one) else 0.2 for one in range(len(plain))]
        chosen = {one: one for one in range(1, len(plain)) if random.random() < shares[one]}
        both = both_of(plain, plain, chosen)
        both.pairs.denied |= {(one, one) for one in range(len(plain)) if random.random() < 0.1}
    expected = paired_by_ends(both)
    before = both.partners
    pair_by_ends(both.pairs, both.pairs.npu, both.pairs.bench, OPERATORS)
    assert both.partners == expected
    for one in expected.keys() - before.keys():
        assert both.pairs.evidence[one] == Evidence.LEAVES
        assert both.pairs.weight[one] == 5.0


@settings(max_examples=costly_examples(100))
@given(RANDOMS)
def test_pairs_whose_results_are_made_by_other_calls_are_taken_back(random: Random) -> None:
    """Or of which one alone hands on what it is given."""
    both = drawn(random)
    if random.random() < 0.4:  # without calls
        left, right = (some_plain(random, 9, palette=FEW, modules=1.0) for _ in range(2))
        both = both_of(left, right, some_pairs(random, left, right, 0.8))
    known, pairs = both.pairs.known, both.pairs
    automatic = {
        i: j
        for i, j in both.partners.items()
        if i and both.left.module(i) and pairs.evidence[i] > 0
    }
    grey = set[int]()
    for i, j in automatic.items():
        told = {int(known.hands_on[i]), int(known.other_hands_on[j])}
        is_other = any(is_other_result(both, i, j, mirrored=mirrored) for mirrored in (False, True))
        if told == {0, 1} or is_other:
            grey.add(i)
    plain = both_of(
        both.left,
        both.right,
        {i: j for i, j in both.partners.items() if i and i not in grey},
    )
    plain.pairs.denied |= {(i, automatic[i]) for i in grey}
    expected = paired_by_ends(plain) if automatic else both.partners
    take_back_other_results(pairs, pairs.npu, pairs.bench, OPERATORS)
    assert both.partners == expected


# -- what differs though all that comes of it agrees ----------------------------------------------

LARGE = tuple(
    tensor(norm, high=high, low=low, shape=shape)
    for norm, high, low in (
        (2.0, 1.0, -1.0),
        (2.1, 1.0, -1.0),
        (2.0, 1.0005, -1.0),
        (2.0, 1.002, -1.0),
        (2.0, 1.0, -1.002),
        (9e9, 1.0, -2e4),
        (9e9, 1.0, -3e4),
    )
    for shape in ((2, 4), (4,))
)


def ends_agree(both: Both) -> bool:
    """Whether the last three pairs of each micro-step agree, before what goes back."""
    ends: dict[int, list[bool]] = {}
    for i, j in sorted(both.partners.items()):
        one, other = both.left[i], both.right[j]
        backward = [
            node
            for node in range(i)
            if both.left[node].direction is Direction.BACKWARD
            and both.left[node].micro_step == one.micro_step
        ]
        is_known = np.isfinite(norm_of(one.outputs) + norm_of(other.outputs))
        if j and both.left.leaf(i) and not backward and is_known and elements(one.outputs) > 1:
            ends.setdefault(one.micro_step, []).append(level(one, other, "outputs") == 2)
    return bool(ends) and all(all(some[-3:]) for some in ends.values())


def extremes_differ(one: Node, other: Node) -> bool:
    """By a thousandth of the largest of them; a mask may hold another large number."""
    _, *here = joined([*one.outputs])
    _, *there = joined([*other.outputs])
    largest = max(map(abs, (*here, *there)))
    differ = any(abs(x - y) > 1e-3 * largest for x, y in zip(here, there, strict=True))
    return largest < 1e4 and differ


@settings(max_examples=costly_examples(100))
@given(RANDOMS)
def test_what_differs_though_all_that_comes_of_it_agrees_is_taken_back(random: Random) -> None:
    tells = random.random() < 0.9
    left = some_plain(random, 9, palette=LARGE, operators=4, backward=random.random() < 0.3)
    nodes = [*left.nodes]
    right = altered(random, left, random.choice([0.0, 0.1]))
    identity = len(right) == len(left) and random.random() < 0.8
    chosen = {one: one for one in range(1, len(nodes)) if random.random() < 0.9}
    if not identity:
        chosen = some_pairs(random, left, right, 0.8, alike=True)
    else:
        changed = [
            Plain([*right.nodes]).nodes[one]
            if left.leaf(one) and random.random() < 0.9
            else _changed(random, right, one)
            for one in range(len(right))
        ]
        right = Plain(changed)
    by_name = [one for one in chosen if random.random() < 0.1]
    told = [np.array(random.choices([-1, 1], k=len(side))) for side in (left, right)]
    both = both_of(
        left,
        right,
        chosen,
        by_name=by_name,
        trust=trusted() if tells else Trust(),
        hands_on=told[0],
        other_hands_on=told[1],
    )
    agree = ends_agree(both)
    assert _ends_agree(both.pairs) == agree
    has_calls = any(one.operator >= 0 for one in left.nodes)
    grey = set[int]()
    for i, j in both.partners.items():
        one, other = left[i], right[j]
        norms = norm_of(one.outputs), norm_of(other.outputs)
        is_automatic = i > 0 and left.forward(i) and both.pairs.evidence[i] > 0
        same_size = elements(one.outputs) == elements(other.outputs) > 1
        if not is_automatic or not same_size or not tells or not agree:
            continue
        differs = level(one, other, "outputs") == 0 and not np.isnan(sum(norms))
        sizes = left.weights_below(i) != right.weights_below(j)
        own = len(one.parameters) != len(other.parameters)
        if one.is_module and differs and (sizes or own or not has_calls):
            grey.add(i)
        moves = one.operator in MOVING or (told[0][i] == told[1][j] == 1)
        if moves and extremes_differ(one, other):
            grey.add(i)
    take_back_other_values(both.pairs, OPERATORS)
    assert both.partners == {0: 0} | {i: j for i, j in chosen.items() if i not in grey}


def _changed(random: Random, plain: Plain, node: int) -> Node:
    one = plain[node]
    outputs = tuple(random.choice(LARGE) if random.random() < 0.5 else made for made in one.outputs)
    weights = one.parameters if random.random() < 0.6 else one.parameters[:1]
    return replace(one, outputs=outputs, parameters=weights)


@pytest.mark.parametrize("last", [True, False])
def test_all_of_the_last_three_have_to_agree(last: bool) -> None:
    same, other = LARGE[0], LARGE[6]

    def side(place: int) -> Plain:
        calls = [
            Node("Torch.op", operator=1, kind=Kind.API, outputs=(other if one == place else same,))
            for one in range(10)
        ]
        return Plain([Node(), *calls])

    left, right = side(-1), side(7 if last else 6)
    both = both_of(left, right, {one: one for one in range(1, 11)})
    assert _ends_agree(both.pairs) != last
