"""Modules of one shape that their names put in no order, told pair by pair."""

from __future__ import annotations

from itertools import combinations, product
from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings

from msprobe_builder.align.evidence.words import first_difference
from msprobe_builder.align.pairing.unordered import (
    has_twins,
    named_apart,
    told_by_words,
    without_order,
)
from msprobe_builder.dump.names import Direction, Kind
from tests.alignment.drawn_sides import PALETTE, STEMS, UNKNOWN, altered, some_plain
from tests.alignment.plain_pairs import numbers
from tests.alignment.plain_sides import Both, Node, Plain, both_of, shapes
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS

# -- modules without an order ------------------------------------------------------------


def plainly_apart(plain: Plain, one: int, other: int, *, around: bool) -> bool:
    """Whether two modules, or two calls of modules with weights, differ by a name."""
    nodes = [plain.host(node) if plain[node].operator >= 0 else node for node in (one, other)]
    stems = [plain[node].stem for node in nodes]
    place = first_difference(*stems)
    if place < 0:
        return False
    is_last = place >= stems[0].count(".") - 2
    return not is_last or (not around and plain.weights_below(nodes[0]) > 0)


def feeds(plain: Plain, one: int, other: int) -> bool:
    """Whether something else puts out between two modules what the later one takes in."""
    between = [
        node
        for node in range(plain.held[one][-1] + 1, other)
        if plain.forward(node)
        and other not in plain.held[node]
        and plain[node].outputs
        and shapes(plain[node].outputs) == shapes(plain[other].inputs)
    ]
    place = first_difference(plain[one].stem, plain[other].stem)
    if place < 0:
        return bool(between)
    own = [".".join(plain[node].stem.split(".")[: place + 2]) + "." for node in (one, other)]
    hosts = [node if plain[node].is_module else plain.host(node) for node in between]
    return any(not plain[host].stem.startswith(tuple(own)) for host in hosts)


def plainly_named_apart(
    plain: Plain, nodes: list[int], *, only_parallel: bool = False, around: bool = False
) -> set[tuple[int, int]]:
    groups: dict[object, list[int]] = {}
    for node in nodes:
        one = plain[node]
        has_weights = bool(plain[plain.host(node)].parameters)
        vectors = one.parameters and all(len(each["shape"]) == 1 for each in one.parameters)
        if (one.operator < 0 or has_weights) and not (only_parallel and vectors):
            operators = sorted(plain[call].operator for call in plain.calls_below(node))
            content = plain.weights_below(node), str(operators)
            extent = (
                str(sorted(shapes(one.inputs).items())),
                str(sorted(shapes(one.outputs).items())),
            )
            groups.setdefault((one.operator, content, extent), []).append(node)
    found = set[tuple[int, int]]()
    for group in groups.values():
        for i, j in combinations(range(len(group)), 2):
            steps = [(group[k], group[k + 1]) for k in range(i, j)]
            if only_parallel and any(feeds(plain, *step) for step in steps):
                continue
            if plainly_apart(plain, group[i], group[j], around=around):
                found |= {(group[i], group[j]), (group[j], group[i])}
    return found


@settings(max_examples=costly_examples(150))
@given(RANDOMS)
def test_modules_of_one_shape_with_names_of_no_order_are_apart(random: Random) -> None:
    palette = (UNKNOWN[0], UNKNOWN[2]) if random.random() < 0.5 else UNKNOWN[:1]
    modules = random.choice([0.6, 1.0])
    plain = some_plain(random, 10, palette=palette, operators=1, modules=modules)
    if random.random() < 0.3:
        plain = with_one_call_each(random)
    nodes = [one for one in range(1, len(plain)) if random.random() < 0.9]
    side = plain.traits()
    for only_parallel, around in product((False, True), repeat=2):
        expected = plainly_named_apart(plain, nodes, only_parallel=only_parallel, around=around)
        result = named_apart(side, numbers(*nodes), only_parallel=only_parallel, around=around)
        found = {(nodes[i], nodes[j]) for i, j in zip(*np.nonzero(result), strict=True)}
        assert found == expected


def with_one_call_each(random: Random) -> Plain:
    """Modules of one size or another, each of which makes the same call."""
    nodes = [Node(direction=Direction.NONE)]
    for _ in range(4):
        stem = f"Module.{random.choice(['net.', ''])}{random.choice(STEMS)}.Part"
        nodes.append(Node(stem, parameters=UNKNOWN[: random.randint(0, 1)]))
        facts: dict[str, Any] = {"operator": 0, "kind": Kind.API}
        nodes.append(Node("Torch.op0", len(nodes) - 1, outputs=UNKNOWN[:1], **facts))
    return Plain(nodes)


def mirrored(random: Random) -> Both:
    palette = (*UNKNOWN[:1], PALETTE[0]) if random.random() < 0.3 else UNKNOWN[:1]
    plain = some_plain(random, 9, palette=palette, operators=1, modules=random.choice([0.7, 1.0]))
    right = plain if random.random() < 0.5 else altered(random, plain, 0.3)
    one_code, has_flow = random.random() < 0.3, random.random() < 0.5
    return both_of(plain, right, one_code=one_code, has_flow=has_flow)


@settings(max_examples=costly_examples(80))
@given(RANDOMS)
def test_two_authors_put_such_modules_in_no_order_unless_they_need_one_another(
    random: Random,
) -> None:
    both = mirrored(random)
    nodes = [*range(1, len(both.left))], [*range(1, len(both.right))]
    sets, one_code_ = [], both.pairs.known.one_code
    for side, some, traits in zip(
        (both.left, both.right), nodes, (both.pairs.npu, both.pairs.bench), strict=True
    ):
        has_calls = any(one.operator >= 0 for one in side.nodes)
        apart = plainly_named_apart(side, some, only_parallel=not has_calls)
        sets.append(set() if one_code_ else apart)
        result = without_order(both.pairs, traits, numbers(*some))
        found = {(some[i], some[j]) for i, j in zip(*np.nonzero(result), strict=True)}
        assert found == sets[-1]
    extents = [
        (
            both.left.weights_below(one),
            str(sorted(both.left[call].operator for call in both.left.calls_below(one))),
            str(shapes(both.left[one].outputs)),
        )
        for one in nodes[0]
        if both.left[one].is_module
    ]
    is_twice = len({*extents}) < len(extents)
    expected = not one_code_ and is_twice and bool(sets[0] or sets[1])
    assert has_twins(both.pairs, numbers(*nodes[0]), numbers(*nodes[1])) == expected
    known = both.pairs.known
    has_calls = any(one.operator >= 0 for one in both.left.nodes)
    told = told_by_words(both.pairs, numbers(*nodes[0]), numbers(*nodes[1]))
    for row, i in enumerate(nodes[0]):
        for column, j in enumerate(nodes[1]):
            said = known.words.said(numbers(i), known.other_words, numbers(j))[0, 0]
            is_told = both.left[i].is_module and not (known.has_flow and has_calls)
            assert told[row, column] == (said if is_told else 0)
