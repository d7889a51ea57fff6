"""Which modules that hold the same leaves become pairs, by names on drawn hierarchies."""

from __future__ import annotations

from collections.abc import Collection
from itertools import product
from random import Random

import numpy as np
from hypothesis import given, settings

from msprobe_builder.align.align import _holds, _nested, _pair_nested, _repeated
from msprobe_builder.align.evidence.holding import holds
from msprobe_builder.align.settled import _is_settled
from msprobe_builder.base.codes import Evidence
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.source import InMemoryDump
from msprobe_builder.pipeline.compare import read_rank
from tests.alignment.test_plain_contradictions import rewritten
from tests.alignment.test_plain_decisions import paired
from tests.alignment.test_plain_hierarchies import some_hierarchy
from tests.alignment.test_plain_scores import is_module, size_of
from tests.alignment.test_traits import Dump
from tests.alignment.two_programs import Part, read_parts
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS


def host(part: Part, partners: Collection[str], name: str) -> str | None:
    above = part.dump.construct[name]
    while above is not None and above not in partners:
        above = part.dump.construct[above]
    return above


@settings(max_examples=costly_examples(40))
@given(RANDOMS)
def test_a_pair_lies_inside_the_pairs_around_it_and_holds_no_counterpart(random: Random) -> None:
    dump = some_hierarchy(random)
    left, right = read_parts(random, [dump, rewritten(random, dump)])
    others = random.sample([*dump.data], len(dump.data))
    chosen = {
        one: one if random.random() < 0.8 else two
        for one, two in zip(dump.data, others, strict=True)
        if random.random() < 0.4
    }
    chosen = {one: two for one, two in chosen.items() if [*chosen.values()].count(two) == 1}
    back = {two: one for one, two in chosen.items()}

    def around(one: str, two: str) -> bool:
        """Whether each lies in the partner of what stands around the other; the root holds all."""
        above, there = host(left, chosen, one), host(right, back, two)
        is_inside = above is None or two in right.dump.inside(chosen[above])
        return is_inside and (there is None or one in left.dump.inside(back[there]))

    def held(part: Part, name: str) -> int:
        return sum(size_of(part.dump.tensors(one, "parameters")) for one in part.dump.inside(name))

    def is_other(one: str, two: str) -> bool:
        has = [
            bool(part.dump.tensors(name, "parameters"))
            for part, name in ((left, one), (right, two))
        ]
        if held(left, one) == held(right, two) and has[0] == has[1]:
            return False
        a, b = np.array([left.nodes[one]]), np.array([right.nodes[two]])
        found = holds(left.traits, right.traits, a, b).any()
        return bool(found or holds(right.traits, left.traits, b, a).any())

    names = [random.sample([*side.nodes], min(5, len(side.nodes))) for side in (left, right)]
    for one, two in product(*names):
        i, j = left.nodes[one], right.nodes[two]
        pairs = paired(
            left, right, [(0, 0), *((left.nodes[x], right.nodes[y]) for x, y in chosen.items())]
        )
        assert _nested(pairs, i, j) == around(one, two), (one, two)
        assert _holds(left.traits, right.traits, i, j) == is_other(one, two), (one, two)
        _pair_nested(pairs, i, j)
        is_free = one not in chosen and two not in back
        if is_free and around(one, two) and not is_other(one, two):
            assert (pairs.partner[i], pairs.back[j]) == (j, i)
            assert (pairs.evidence[i], pairs.weight[i]) == (Evidence.LEAVES, 5.0)
        else:
            expected = right.nodes[chosen[one]] if one in chosen else -1
            assert pairs.partner[i] == expected


@settings(max_examples=costly_examples(40))
@given(RANDOMS)
def test_a_class_at_more_than_one_place_of_a_micro_step_is_repeated(random: Random) -> None:
    dump = some_hierarchy(random)
    renamed = Dump({}, {})
    names = {
        one: one.replace(".Part.", f".{random.choice(['Part', 'Block', 'Net'])}.")
        for one in dict.fromkeys(one.partition(".forward")[0] + ".forward" for one in dump.data)
    }
    whole = {
        one: names[one.partition(".forward")[0] + ".forward"] + one.partition(".forward")[2]
        for one in dump.data
    }
    for one, record in dump.data.items():
        renamed.data[whole[one]] = record
        above = dump.construct[one]
        renamed.construct[whole[one]] = whole[above] if above else None
    [part] = read_parts(random, [renamed])
    found = _repeated(part.traits)
    places: dict[object, set[str]] = {}

    def key(name: str) -> tuple[str, str]:
        path, _, kind = name.partition(".forward")[0].rpartition(".")
        return path, kind

    for name, node in part.nodes.items():
        if is_module(name):
            path, kind = key(name)
            places.setdefault((kind, part.step[node]), set()).add(path)
    for name, node in part.nodes.items():
        expected = is_module(name) and len(places[key(name)[1], part.step[node]]) > 1
        assert found[node] == expected, name


@settings(max_examples=costly_examples(40))
@given(RANDOMS)
def test_equal_names_settle_all_where_nothing_is_left_over(random: Random) -> None:
    dump, texts = some_hierarchy(random), Texts()
    content = {"task": "statistics", "framework": "pytorch", "data": dump.data}
    sides = [read_rank(InMemoryDump(content, dump.construct, {}), texts)[0] for _ in "ab"]
    partner = np.arange(len(sides[0].tree))
    kind = random.randrange(5)
    place = random.randrange(len(partner))
    if kind == 1:
        partner[place] = -1
    if kind in (2, 3):
        tree = sides[1].tree
        column = (tree.micro_step, tree.is_recompute)[kind - 2]
        column[place] = 1
    kind = 0 if kind == 4 and len(dump.data) == 1 else kind
    if kind == 4:
        smaller = {one: dump.data[one] for one in [*dump.data][:-1]}
        construct = {one: dump.construct[one] for one in smaller}
        content = {**content, "data": smaller}
        sides[0] = read_rank(InMemoryDump(content, construct, {}), texts)[0]
        partner = np.arange(len(sides[0].tree))
    assert _is_settled(sides[0], sides[1], partner) == (
        kind == 0 or (kind == 4 and len(dump.data) == 1)
    )
