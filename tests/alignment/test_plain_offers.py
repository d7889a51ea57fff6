"""Who is offered as a partner, and which pairs of names stay, on drawn hierarchies."""

from __future__ import annotations

from itertools import product
from random import Random
from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings

from msprobe_builder.align.evidence.scores import THRESHOLD
from msprobe_builder.align.pairing.kept import _turns, with_content
from msprobe_builder.align.pairing.offers import _by_content, _by_values
from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.align.pairing.wrappers import _of_one_shape
from tests.alignment.test_plain_decisions import paired
from tests.alignment.test_plain_hierarchies import modules_of, some_hierarchy, stem
from tests.alignment.test_traits import Side, level_of, numel, read, some_dump
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS


def some_pairs(random: Random, left: Side, right: Side) -> list[tuple[str, str]]:
    count = random.randint(0, min(len(left.nodes), len(right.nodes)))
    return [
        *zip(random.sample([*left.nodes], count), random.sample([*right.nodes], count), strict=True)
    ]


def offered(pairs: Pairs) -> dict[tuple[int, int], float]:
    """What is offered to nodes of the debug side, with its weight."""
    return {(node, other): one for node, all_ in pairs.open[0].items() for other, one in all_}


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_free_nodes_that_put_out_one_tensor_are_offered(random: Random) -> None:
    """One operator, one form and equal inputs weigh more; what many put out tells nothing."""
    left, right = read([some_dump(random), some_dump(random)])
    chosen = some_pairs(random, left, right)
    nodes = [(left.nodes[one], right.nodes[two]) for one, two in chosen]
    pairs = paired(left, right, nodes, trust=SimpleNamespace(equal=2.0))
    free, free_there = (
        [name for name in side.nodes if name not in {pair[place] for pair in chosen}]
        for place, side in enumerate((left, right))
    )
    made, made_there = (
        {name: side.dump.tensors(name, "outputs") for name in names}
        for side, names in ((left, free), (right, free_there))
    )
    same = [
        (one, two)
        for one, two in product(free, free_there)
        if level_of(made[one], made_there[two]) == 2
        and sum(map(numel, made[one])) > 1
        and one.startswith("Module") == two.startswith("Module")
    ]
    often = [sum(one == pair[0] for pair in same) for one in free]
    often_there = [sum(two == pair[1] for pair in same) for two in free_there]
    _by_values(pairs)
    if max([0, *often, *often_there]) > 5:
        return
    found = {
        (node, other): weight
        for node, several in pairs.open[0].items()
        for other, weight in several
    }
    for one, two in same:
        i, j = left.nodes[one], right.nodes[two]
        shapes = [sorted(str(t["shape"]) for t in own) for own in (made[one], made_there[two])]
        given_ = left.dump.tensors(one, "inputs"), right.dump.tensors(two, "inputs")
        weight = 5.0 + (one.startswith("Module") or one.split(".")[1] == two.split(".")[1])
        weight += 0.5 * (shapes[0] == shapes[1]) + 0.5 * (level_of(*given_) == 2)
        assert abs(found.pop((i, j)) - THRESHOLD - weight) < 1e-9, (one, two)
    assert not found


@settings(max_examples=costly_examples(40))
@given(RANDOMS)
def test_modules_around_pairs_are_offered_by_the_share_of_pairs_that_both_hold(
    random: Random,
) -> None:
    left, right = read([some_hierarchy(random), some_hierarchy(random)])
    chosen = some_pairs(random, left, right)
    nodes = [(left.nodes[one], right.nodes[two]) for one, two in chosen]
    pairs = paired(left, right, nodes)
    matched, matched_there = {one for one, _ in chosen}, {two for _, two in chosen}

    def around(side: Side, matched: set[str], name: str) -> list[str]:
        found, above = [], side.dump.construct[name]
        while above is not None and above not in matched:
            found.append(above)
            above = side.dump.construct[above]
        return found

    _by_content(pairs)
    found = {
        (node, other): weight
        for node, several in pairs.open[0].items()
        for other, weight in several
    }
    expected: dict[tuple[str, str], int] = {}
    for one, two in chosen:
        for host in product(around(left, matched, one), around(right, matched_there, two)):
            expected[host] = expected.get(host, 0) + 1
    for (one, two), both in expected.items():
        held = len(matched & {*left.dump.inside(one)})
        held_there = len(matched_there & {*right.dump.inside(two)})
        share = both / (held + held_there - both)
        # They end with the same pair if each holds the partner of the other's last one.
        last = [name for name in left.nodes if name in matched & {*left.dump.inside(one)}][-1:]
        last_there = [
            name for name in right.nodes if name in matched_there & {*right.dump.inside(two)}
        ][-1:]
        ends = {other for name, other in chosen if name in last} & {*right.dump.inside(two)}
        begins = {name for name, other in chosen if other in last_there}
        begins &= {*left.dump.inside(one)}
        weight = 2 * (share + 0.12 * (bool(ends) + bool(begins)))
        found_weight = found.pop((left.nodes[one], right.nodes[two]))
        assert abs(found_weight - THRESHOLD - weight) < 1e-9
    assert not found


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_the_turn_of_a_call_is_counted_where_one_host_makes_it(random: Random) -> None:
    [side] = read([some_hierarchy(random)])
    ids: dict[str, int] = {}
    stems = np.full(len(side.traits), -1)
    for name, node in side.nodes.items():
        key = stem(name) if name.startswith("Module") else name.rsplit(".", 2)[0]
        stems[node] = ids.setdefault(key, len(ids))
    found = _turns(side.traits, stems)
    for name in modules_of(side):
        host = side.dump.construct[name]
        alike = [
            one
            for one in modules_of(side)
            if side.dump.construct[one] == host and stem(one) == stem(name)
        ]
        assert found[side.nodes[name]] == alike.index(name)


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_content_is_all_that_lies_below(random: Random) -> None:
    [side] = read([some_hierarchy(random)])
    names = [name for name in side.nodes if random.random() < 0.2]
    chosen = np.zeros(len(side.traits), dtype=bool)
    chosen[[side.nodes[name] for name in names]] = True
    tree = SimpleNamespace(tree=side.traits.outline.tree)
    found = with_content(tree, chosen)  # type: ignore[arg-type]
    below = {one for name in names for one in side.dump.inside(name)}
    assert {name for name, node in side.nodes.items() if found[node]} == below


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_of_two_chains_those_belong_together_that_alone_have_their_shapes(random: Random) -> None:
    left, right = read([some_dump(random), some_dump(random)])
    chains = [
        sorted(random.sample([*side.nodes], random.randint(0, len(side.nodes))))
        for side in (left, right)
    ]
    shapes = [
        [
            tuple(
                tuple(sorted(str(one["shape"]) for one in side.dump.tensors(name, section)))
                for section in ("inputs", "outputs")
            )
            for name in chain
        ]
        for side, chain in zip((left, right), chains, strict=True)
    ]
    expected = [
        (left.nodes[one], right.nodes[chains[1][shapes[1].index(shape)]])
        for one, shape in zip(chains[0], shapes[0], strict=True)
        if shapes[0].count(shape) == 1 and shapes[1].count(shape) == 1
    ]
    nodes = [
        [side.nodes[name] for name in chain]
        for side, chain in zip((left, right), chains, strict=True)
    ]
    found = _of_one_shape(left.traits, right.traits, *nodes)
    assert [*zip(*found, strict=True)] == expected
