"""Modules that alone are the same, fused weights, and rounds that differ."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from msprobe_builder.align.evidence.trust import Trust
from msprobe_builder.align.pairing import same
from msprobe_builder.align.pairing.across import around
from msprobe_builder.align.pairing.alternating_passes import in_one_round
from msprobe_builder.align.pairing.fused_projections import pair_last
from msprobe_builder.align.pairing.pairs import note
from msprobe_builder.align.pairing.same import give_way_to_hosts, pair_same
from msprobe_builder.base.codes import Evidence
from msprobe_builder.dump.names import Direction, Kind
from tests.alignment.drawn_sides import PALETTE, UNKNOWN, altered, some_pairs, some_plain, trusted
from tests.alignment.plain_pairs import numbers
from tests.alignment.plain_sides import (
    Node,
    Plain,
    both_of,
    elements,
    fresh,
    level,
    norm_of,
)
from tests.builder.small_dumps import tensor
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS

# -- modules that alone are the same ------------------------------------------------------------


@settings(max_examples=costly_examples(120))
@given(RANDOMS)
def test_modules_are_the_same_that_alone_take_in_and_put_out_the_same(random: Random) -> None:
    """Near each other, or of equal weights wherever they stand."""
    facts: dict[str, Any] = {"palette": (PALETTE[0], PALETTE[1], PALETTE[6]), "steps": 2}
    left = some_plain(random, 9, modules=0.9, **facts)
    right = altered(random, left, 0.2) if random.random() < 0.8 else some_plain(random, 9, **facts)
    trust = trusted() if random.random() < 0.9 else Trust()
    both = both_of(left, right, some_pairs(random, left, right, 0.3, alike=True), trust=trust)
    free = [one for one in range(1, len(left)) if left.module(one) and one not in both.partners]
    others = [
        one
        for one in range(1, len(right))
        if right.module(one) and one not in both.partners.values()
    ]
    same_ones = [
        (i, j)
        for i, j in product(free, others)
        if left[i].micro_step == right[j].micro_step
        and elements(left[i].inputs) == elements(right[j].inputs)
        and elements(left[i].outputs) == elements(right[j].outputs)
        and not np.isnan(sum(norm_of(part) for part in (left[i].inputs, left[i].outputs)))
        and not np.isnan(sum(norm_of(part) for part in (right[j].inputs, right[j].outputs)))
        and level(left[i], right[j], "inputs") == level(left[i], right[j], "outputs") == 2
    ]
    twin = fresh(both.pairs)
    sizes = {
        i: (left[i].micro_step, elements(left[i].inputs), elements(left[i].outputs)) for i in free
    }
    order = [*dict.fromkeys(sizes.values())]
    for i, j in sorted(same_ones, key=lambda pair: (order.index(sizes[pair[0]]), pair)):
        if sum(i == one for one, _ in same_ones) > 1 or sum(j == two for _, two in same_ones) > 1:
            continue
        has = left[i].parameters and right[j].parameters
        equal = bool(has) and level(left[i], right[j], "parameters") == 2
        is_near = around(twin, numbers(i), numbers(j)).all()
        if trust.equal and (equal or is_near) and twin.add(i, j, Evidence.INSIDE, 5.0):
            note(twin, i, j)
    pair_same(both.pairs, both.pairs.npu, both.pairs.bench)
    assert both.pairs.partner.tolist() == twin.partner.tolist()
    assert both.pairs.weight.tolist() == twin.weight.tolist()
    assert both.pairs.known.stems == twin.known.stems


@settings(max_examples=costly_examples(100))
@given(RANDOMS)
def test_a_module_gives_way_to_the_one_around_it_that_is_the_same_as_its_partner(
    random: Random,
) -> None:
    """If it is free, and what the module puts out differs from what its partner does."""
    palette = (PALETTE[0], PALETTE[3], PALETTE[6], UNKNOWN[0])
    left = some_plain(random, 6, palette=palette, modules=0.8)
    right = altered(random, left, 0.2)
    chosen = some_pairs(random, left, right, 0.5, alike=True)
    by_name = [one for one in chosen if random.random() < 0.1]
    asked = [one for one in chosen if random.random() < 0.1]
    both = both_of(left, right, chosen, by_name=by_name, asked=asked, trust=trusted())
    twin = fresh(both.pairs)
    for i, j in sorted(chosen.items()):
        is_automatic = left.module(i) and not twin.asked[i] and twin.evidence[i] > 0
        norms = norm_of(left[i].outputs), norm_of(right[j].outputs)
        differs = elements(left[i].outputs) > 1 and level(left[i], right[j], "outputs") < 2
        if not is_automatic or not differs or np.isnan(sum(norms)):
            continue
        for one, two in ((left.host(i), j), (i, right.host(j))):
            is_free = (one == i or twin.partner[one] < 0) and (two == j or twin.back[two] < 0)
            if not one or not two or not is_free:
                continue
            if all(level(left[one], right[two], part) == 2 for part in ("inputs", "outputs")):
                twin.take_back(i)
                twin.add(one, two, Evidence.INSIDE, 5.0)
                break
    give_way_to_hosts(both.pairs, both.pairs.npu, both.pairs.bench)
    assert both.pairs.partner.tolist() == twin.partner.tolist()
    assert both.pairs.weight.tolist() == twin.weight.tolist()


def test_too_many_modules_of_one_size_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Plain([Node(), Node("Module.a.Part", inputs=PALETTE[:1], outputs=PALETTE[2:3])])
    for largest, partner in ((0, -1), (1, 1)):
        monkeypatch.setattr(same, "_LARGEST", largest)
        both = both_of(plain, plain, trust=trusted())
        pair_same(both.pairs, both.pairs.npu, both.pairs.bench)
        assert both.pairs.partner[1] == partner


# -- fused weights, and rounds that differ ---------------------------------------------------------

MATRICES = tuple(
    tensor(None, high=None, low=None, mean=None, shape=shape)
    for shape in ((3, 4), (3, 4), (6, 4), (9, 4), (3, 4), (7,))
)


@settings(max_examples=costly_examples(200))
@given(RANDOMS)
def test_behind_fused_weights_the_last_module_is_that_behind_as_many_apart(random: Random) -> None:
    names = random.choice([("a", "b", "c", "d"), ("query", "b", "c", "d"), ("a", "b", "c", "key")])

    def modules(weights: list[int]) -> Plain:
        nodes = [
            Node(f"Module.{name}.Part", parameters=(MATRICES[one],))
            for name, one in zip(names[-len(weights) :] if weights else (), weights, strict=True)
        ]
        nodes += [Node("Module.none.Part")] * (random.random() < 0.3)
        call = Node("Torch.relu", operator=1, kind=Kind.API)
        return Plain([Node(), *nodes, *([call] * (random.random() < 0.2))])

    few = random.choice([[2, 0], [3, 0], [3, 0], [3, 1], [3, 5], [3]])
    many = random.choice([[0, 1, 0, 0], [0, 1, 0, 4], [0, 0, 0], [0, 0, 2], [0, 5, 0], [2, 0, 0]])
    sides = [modules(few), modules(many)]
    if random.random() < 0.5:
        sides.reverse()
    both = both_of(sides[0], sides[1], one_code=random.random() < 0.1)
    if random.random() < 0.1:
        both.pairs.denied.add((len(few), len(many)))

    def with_matrices(plain: Plain) -> list[int]:
        held = [one for one in range(1, len(plain)) if plain[one].parameters]
        return [one for one in held if len(plain[one].parameters[0]["shape"]) > 1]

    found = [with_matrices(side) for side in sides]
    short, long = sorted(zip(found, sides, strict=True), key=lambda one: len(one[0]))
    sizes, others = (
        [elements(side[one].parameters) for one in nodes] for nodes, side in (short, long)
    )
    has_calls = any(one.operator >= 0 for one in sides[0].nodes)
    last = found[0][-1], found[1][-1]
    names_tell = {"query", "key"} & {
        part for side, one in zip(sides, last, strict=True) for part in side[one].stem.split(".")
    }
    is_told = (
        not both.pairs.known.one_code
        and not has_calls
        and len(sizes) == 2
        and len(others) >= 3
        and sizes == [sum(others[:-1]), others[-1]]
        and not names_tell
        and last not in both.pairs.denied
    )
    nodes = [numbers(*range(1, len(side))) for side in sides]
    assert pair_last(both.pairs, nodes[0], nodes[1]) == ([last[0]] if is_told else [])
    assert both.partners == {0: 0} | ({last[0]: last[1]} if is_told else {})
    assert not is_told or both.pairs.weight[last[0]] == 3.0


@settings(max_examples=costly_examples(100))
@given(RANDOMS)
def test_rounds_are_one_sequence_unless_they_repeat_or_agree(random: Random) -> None:
    """Each has half the weights of the first at least, or of that of the other side."""
    sizes = [
        [random.choice([0, 2, 4, 5, 8, 9]) for _ in range(random.randint(1, 4))] for _ in range(2)
    ]
    sides = [
        Plain(
            [
                Node(direction=Direction.NONE),
                *(
                    Node("Module.a.Part", parameters=(tensor(shape=(1,)),) * size, micro_step=step)
                    for step, size in enumerate(some)
                ),
            ]
        )
        for some in sizes
    ]
    shares = [[size / next(filter(None, some)) for size in some if size] for some in sizes]

    def near(one: list[float], other: list[float]) -> bool:
        return all(2 * min(pair) >= max(pair) for pair in zip(one, other, strict=True))

    repeat = all(near(some, [1.0] * len(some)) for some in shares)
    agree = len(shares[0]) == len(shares[1]) and near(*shares)
    traits = [side.traits() for side in sides]
    joined = in_one_round(traits[0], traits[1])
    for before, after, some in zip(traits, joined, sizes, strict=True):
        if repeat or agree:
            assert after is before
        else:
            assert after.outline.tree.micro_steps == 1
            assert after.outline.tree.micro_step.tolist() == [0] * (1 + len(some))
