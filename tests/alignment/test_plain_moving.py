"""Calls that only move elements, found by what they move, told call by call."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given, settings

from msprobe_builder.align.pairing.across import around
from msprobe_builder.align.pairing.order_and_flow import (
    pair_moving,
)
from tests.alignment.drawn_sides import UNKNOWN, some_pairs, some_plain
from tests.alignment.plain_flows import PlainFlow, some_flow
from tests.alignment.plain_pairs import numbers
from tests.alignment.plain_sides import Plain, both_of, shapes
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS


def moved(plain: Plain, flow: PlainFlow, moving: set[int], partners: set[int], node: int) -> Any:
    """Which output of which call of a pair a call moves, up to three calls further."""
    inputs = len(plain[node].inputs) + len(plain[node].parameters)
    if not plain.leaf(node) or plain[node].operator not in moving or node in partners:
        return None
    first = flow.given.get((node, 0)) if inputs and plain[node].inputs else None
    if first is None:
        return None
    maker, steps = first[0], 0
    while maker not in partners and steps < 3:
        further = flow.given.get((maker, 0)) if plain[maker].inputs else None
        if further is None:
            return None
        maker, steps = further[0], steps + 1
    if maker not in partners:
        return None
    one = plain[node]
    form = tuple(sorted(shapes(one.inputs).items())), tuple(sorted(shapes(one.outputs).items()))
    return maker, first[1], one.operator, form


@settings(max_examples=costly_examples(100))
@given(RANDOMS)
def test_calls_that_move_one_tensor_of_a_pair_as_often_on_both_sides_are_pairs(
    random: Random,
) -> None:
    left = some_plain(random, 12, palette=UNKNOWN[:2], operators=2)
    right = left if random.random() < 0.5 else some_plain(random, 12, palette=UNKNOWN[:2])
    flows = some_flow(random, left, 0.95), some_flow(random, right, 0.95)
    if right is left:
        flows = flows[0], random.choice(flows)
    chosen = some_pairs(random, left, right, 0.4, alike=True)
    if right is left and random.random() < 0.7:
        chosen = {one: one for one in chosen}
    both = both_of(left, right, chosen, moving=numbers(0, *random.choice([(), (1,)])))
    moving = {*both.pairs.known.moving.tolist()}
    held = {0} | chosen.keys(), {0} | {*chosen.values()}
    keys: list[dict[object, list[int]]] = [{}, {}]
    for side, (plain, flow) in enumerate(zip((left, right), flows, strict=True)):
        for node in range(len(plain)):
            key = moved(plain, flow, moving, held[side], node)
            if key is not None:
                maker = key[0] if side else (chosen | {0: 0})[key[0]]
                keys[side].setdefault((maker, *key[1:]), []).append(node)
    expected = {0: 0} | chosen
    for key, nodes in keys[0].items():
        others = keys[1].get(key, [])
        if len(nodes) == len(others):
            for one, two in zip(nodes, others, strict=True):
                if around(both.pairs, numbers(one), numbers(two)).all():
                    expected[one] = two
    pair_moving(both.pairs, flows[0].flow, flows[1].flow)
    assert both.partners == expected
    for one in expected.keys() - held[0]:
        assert both.pairs.weight[one] == 4.5
