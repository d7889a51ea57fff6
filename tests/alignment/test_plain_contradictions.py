"""Pairs of modules that contradict themselves, written down a second time by names and records."""

from __future__ import annotations

import copy
from collections import Counter
from functools import cache
from itertools import product
from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings

from msprobe_builder.align.contradictions import of_modules
from msprobe_builder.align.contradictions.passes import passes_in_another_order
from msprobe_builder.align.evidence.guesses import held_guesses
from msprobe_builder.align.evidence.holding import holds
from msprobe_builder.align.evidence.trust import Trust
from tests.alignment.test_plain_decisions import paired
from tests.alignment.test_plain_hierarchies import known_of, some_hierarchy, stem
from tests.alignment.test_plain_scores import does, is_module, size_of
from tests.alignment.test_traits import Dump, level_of
from tests.alignment.two_programs import Part, read_parts
from tests.builder.small_dumps import forward, tensor
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS


def rewritten(random: Random, dump: Dump) -> Dump:
    """The same with other weights, sizes and results of some modules."""
    result = copy.deepcopy(dump)
    for name, record in result.data.items():
        if not is_module(name) or random.random() < 0.75:
            continue
        kind = random.randrange(4)
        if kind == 0:
            record.pop("parameters", None)
        elif kind == 1:
            shape = random.choice([(4, 4), (4, 5), (4, 6), (8, 8)])
            record["parameters"] = {"w": tensor(2.0, high=1.0, low=-0.5, shape=shape)}
        else:
            made = random.choice([(8,), (11,), (12,), (2, 4)])
            record["output"] = [tensor(5.0, shape=made) for _ in record["output"]]
    return result


class Drawn:
    """A hierarchy and the same with changes, whose modules are paired mostly by name."""

    def __init__(self, random: Random, dumps: tuple[Dump, Dump] | None = None) -> None:
        self.random = random
        dump = some_hierarchy(random)
        first, second = dumps or (dump, rewritten(random, dump))
        self.left, self.right = read_parts(random, [first, second])
        names = [*first.data]
        others = [*names]
        if random.random() < 0.4:
            one, two = (random.randrange(len(names)) for _ in "ab")
            others[one], others[two] = others[two], others[one]
        self.pairs_of_names = {
            one: two for one, two in zip(names, others, strict=True) if random.random() < 0.85
        }
        self.back = {two: one for one, two in self.pairs_of_names.items()}
        known = known_of(self.left, self.right)
        equal = random.choice([0.0, 2.0])
        trust = Trust(equal, random.choice([0.0, 1.0]) if equal else 0.0, random.random() < 0.7)
        twins = [np.array(random.choices([-1, 0, 1], k=len(one.traits))) for one in self.sides]
        self.pairs = paired(
            self.left,
            self.right,
            [(self.left.nodes[a], self.right.nodes[b]) for a, b in self.pairs_of_names.items()],
            stem=known.stem,
            other_stem=known.other_stem,
            trust=trust,
            has_flow=random.random() < 0.5,
            twin=twins[0],
            other_twin=twins[1],
        )

    @property
    def sides(self) -> tuple[Part, Part]:
        return self.left, self.right

    def below(self, side: int, name: str) -> int:
        dump = self.sides[side].dump
        return sum(size_of(dump.tensors(one, "parameters")) for one in dump.inside(name))

    def own(self, side: int, name: str) -> int:
        return size_of(self.sides[side].dump.tensors(name, "parameters"))

    def modules(self) -> dict[str, str]:
        return {
            one: two
            for one, two in self.pairs_of_names.items()
            if is_module(one) and self.right.nodes[two] > 0
        }

    def names(self, nodes: Any) -> set[str]:
        return {self.left.name_of[one] for one in nodes.tolist()}


def contradicted(drawn: Drawn) -> tuple[set[str], set[str]]:
    """Pairs of other sizes though the right one is there; and those of which one holds nothing."""
    both = {
        (one, two): (drawn.below(0, one), drawn.below(1, two))
        for one, two in drawn.modules().items()
    }
    simple = {
        pair: sizes
        for pair, sizes in both.items()
        if min(sizes) > 0 and sizes == (drawn.own(0, pair[0]), drawn.own(1, pair[1]))
    }
    equal = sum(x == y for x, y in simple.values())
    if equal < 0.8 * max(len(simple), 1):
        return set(), set()
    known, there = (
        {drawn.below(side, one) for one in part.nodes if is_module(one)}
        for side, part in enumerate(drawn.sides)
    )
    wrong, hollow = set(), set()
    for (one, two), (x, y) in both.items():
        is_there = x in there, y in known
        much = max(x, y) >= 1.5 * min(x, y)
        if min(x, y) > 0 and x != y:
            is_wrong = (one, two) in simple and all(is_there)
            if is_wrong or (much and any(is_there)):
                wrong.add(one)
        if (x == 0 and y > drawn.own(1, two)) or (y == 0 and x > drawn.own(0, one)):
            hollow.add(one)
    return wrong, hollow


@settings(max_examples=costly_examples(50))
@given(RANDOMS)
def test_a_pair_of_modules_of_other_sizes_is_none_where_the_right_size_is_there(
    random: Random,
) -> None:
    drawn = Drawn(random)
    nodes = np.array([drawn.left.nodes[one] for one in drawn.modules()], dtype=np.int64)
    if not len(nodes):
        return
    found = of_modules._of_other_size(drawn.pairs, nodes)
    assert (drawn.names(found[0]), drawn.names(found[1])) == contradicted(drawn)


@settings(max_examples=costly_examples(50))
@given(RANDOMS)
def test_what_a_pair_holds_goes_with_it_but_for_what_is_known_by_itself(random: Random) -> None:
    """By weights that are the same, or, where values tell, by all that goes in and out."""
    drawn = Drawn(random)
    pairs, known = drawn.pairs, drawn.pairs.known
    if not drawn.pairs_of_names:
        return
    one = random.choice([*drawn.pairs_of_names])
    two = drawn.pairs_of_names[one]
    is_asked = random.random() < 0.2
    pairs.asked[drawn.left.nodes[one]] = is_asked
    is_for_good = random.random() < 0.5
    of_modules._drop_with_content(pairs, drawn.left.nodes[one], for_good=is_for_good)
    held, held_there = {*drawn.left.dump.inside(one)}, {*drawn.right.dump.inside(two)}
    for name, other in drawn.pairs_of_names.items():
        i, j = drawn.left.nodes[name], drawn.right.nodes[other]
        is_inside = name in held and other in held_there and (name == one or other != two)
        same = known.twin[i] == known.other_twin[j] >= 0
        if known.trust.equal:
            levels = [
                level_of(drawn.left.dump.tensors(name, it), drawn.right.dump.tensors(other, it))
                for it in ("inputs", "outputs")
            ]
            same |= levels == [2, 2]
        gone = is_inside and not is_asked and (name == one or not same)
        assert (pairs.partner[i] < 0) == gone, name
        assert ((i, j) in pairs.denied) == (gone and is_for_good)


@settings(max_examples=costly_examples(50))
@given(RANDOMS)
def test_what_contradicts_itself_is_taken_back(random: Random) -> None:
    """First what holds nothing, then other calls of modules, passes, at last other sizes."""
    drawn = Drawn(random)
    expected = copy.deepcopy(drawn.pairs)
    modules = np.array(sorted(drawn.left.nodes[one] for one in drawn.modules()), dtype=np.int64)
    wrong, hollow = contradicted(drawn)

    def ordered(names: set[str]) -> list[int]:
        return sorted(drawn.left.nodes[one] for one in names)

    for node in ordered(hollow):
        expected.take_back(node)
    for node in of_modules._of_other_number(expected, modules).tolist():
        of_modules._drop_with_content(expected, node, for_good=False)
    for node in passes_in_another_order(expected).tolist():
        expected.take_back(node)
    for node in ordered(wrong):
        if expected.partner[node] > 0:
            of_modules._drop_with_content(expected, node)
    of_modules.take_back(drawn.pairs)
    assert drawn.pairs.partner.tolist() == expected.partner.tolist()
    assert drawn.pairs.back.tolist() == expected.back.tolist()
    assert drawn.pairs.denied == expected.denied


@settings(max_examples=costly_examples(50))
@given(RANDOMS)
def test_passes_that_cross_modules_outside_of_them_are_no_pairs(random: Random) -> None:
    """Of all calls of such a module what is inside, if automatic; not where values tell."""
    drawn = Drawn(random, some_passes(random) if random.random() < 0.8 else None)
    drawn.pairs.evidence[random.choices(range(len(drawn.pairs.evidence)), k=2)] = 0
    if random.random() < 0.7:
        drawn.pairs.known.trust = Trust()
    assert drawn.names(passes_in_another_order(drawn.pairs)) == in_crossed_passes(drawn)


def some_passes(random: Random) -> tuple[Dump, Dump]:
    """Modules with weights in a network, some of them called several times, in two orders."""
    often = {"a": random.choice([1, 2, 3, 7, 8]), "b": random.choice([1, 1, 2]), "c": 1}
    order = [one for one, count in often.items() for _ in range(count)]
    net = "Module.net.Net.forward.0"
    with_calls, with_values = random.random() < 0.2, random.random() < 0.5
    made = tensor() if with_values else tensor(None, high=None, low=None, mean=None)
    weight = {"weight": tensor(2.0, shape=(4, 4))}
    dumps = []
    random.shuffle(order)
    is_held = {one: random.random() < 0.5 for one in often}
    for _ in range(2):
        dump = Dump({net: forward([made], [made])}, {net: None})
        numbers: Counter[str] = Counter()
        for one in order:
            number = numbers[one]
            numbers[one] += 1
            name = f"Module.net.{one}.Part.forward.{number}"
            inner = f"Module.net.{one}.inner.Linear.forward.{number}"
            dump.data[name], dump.construct[name] = forward([made], [made]), net
            if is_held[one]:
                dump.data[inner], dump.construct[inner] = forward([made], [made]), name
            dump.data[inner if is_held[one] else name]["parameters"] = weight
        if with_calls:
            dump.data["Torch.relu.0.forward"] = forward([made], [made])
            dump.construct["Torch.relu.0.forward"] = net
        dumps.append(dump)
        if random.random() < 0.7:
            place, other = random.randrange(len(order)), random.randrange(len(order))
            order[place], order[other] = order[other], order[place]
    return dumps[0], dumps[1]


def in_crossed_passes(drawn: Drawn) -> set[str]:
    pairs, trust = drawn.pairs, drawn.pairs.known.trust
    left, right = drawn.sides
    weights = {
        one
        for one in left.nodes
        if is_module(one) and any(drawn.own(0, name) for name in left.dump.inside(one))
    }
    counts = Counter(map(stem, weights))

    def is_pass(name: str) -> bool:
        above = left.dump.construct[name]
        often = 1 if above is None else counts[stem(above)]
        return name in weights and often < counts[stem(name)] < 8

    told = [(one, right.nodes[two]) for one, two in drawn.modules().items() if drawn.own(0, one)]
    crossed = set()
    for name in filter(is_pass, left.nodes):
        held = {*left.dump.inside(name)}
        its = [two for one, two in told if one in held]
        first, last = left.nodes[name], max(left.nodes[one] for one in held)
        before = [two for one, two in told if left.nodes[one] < first]
        behind = [two for one, two in told if left.nodes[one] > last]
        if its and (max(before, default=-1) > max(its) or min(behind, default=10**9) < min(its)):
            crossed.add(stem(name))
    inside = {
        one
        for name in filter(is_pass, left.nodes)
        for one in left.dump.inside(name)
        if stem(name) in crossed
    }
    has_calls = any(not is_module(one) for one in left.nodes)
    if trust.equal or trust.near or (has_calls and drawn.pairs.known.has_flow):  # then flow tells
        return set()
    return {one for one in inside & drawn.pairs_of_names.keys() if pairs.evidence[left.nodes[one]]}


@settings(max_examples=costly_examples(50))
@given(RANDOMS)
def test_a_module_holds_the_counterpart_of_another_one_and_more(random: Random) -> None:
    drawn = Drawn(random)
    left, right = drawn.sides
    modules = [[one for one in side.nodes if is_module(one)] for side in drawn.sides]
    a, b = (
        np.array([side.nodes[one] for one in names])
        for side, names in zip(drawn.sides, modules, strict=True)
    )
    found = holds(left.traits, right.traits, a, b)

    @cache
    def below(side: int, name: str) -> int:
        return drawn.below(side, name)

    @cache
    def content(side: int, name: str) -> object:
        inside = drawn.sides[side].dump.inside(name)
        calls = Counter(does(one) for one in inside if not is_module(one))
        return below(side, name), calls

    held = {one: left.dump.inside(one)[1:] for one in modules[0]}
    for (i, one), (j, two) in product(enumerate(modules[0]), enumerate(modules[1])):
        inside = held[one]
        size, whole = below(1, two), below(0, one)
        more = size < whole or (drawn.own(1, two) > 0 and drawn.own(0, one) == 0)
        expected = more and size in [below(0, name) for name in inside]
        its = content(1, two)
        works_more = its != content(0, one) and its in [content(0, name) for name in inside]
        expected = size > 0 and whole > drawn.own(0, one) and (expected or works_more)
        assert found[i, j] == expected, (one, two)


@settings(max_examples=costly_examples(40))
@given(RANDOMS)
def test_guesses_of_calls_speak_for_the_modules_that_hold_both(random: Random) -> None:
    drawn = Drawn(random)
    left, right = drawn.sides
    share = random.choice([0.0, 0.5, 0.9])
    guesses = {one: two for one, two in drawn.pairs_of_names.items() if random.random() < share}
    columns = [np.full(len(one.traits), -1, dtype=np.int64) for one in drawn.sides]
    for one, two in guesses.items():
        columns[0][left.nodes[one]] = right.nodes[two]
        columns[1][right.nodes[two]] = left.nodes[one]
    names = [[*one.nodes] for one in drawn.sides]
    a, b = (
        np.array([side.nodes[one] for one in of])
        for side, of in zip(drawn.sides, names, strict=True)
    )
    found = held_guesses(left.traits, right.traits, a, b, (columns[0], columns[1]))
    all_held, all_there = (
        {one: {*side.dump.inside(one)} for one in of}
        for side, of in zip(drawn.sides, names, strict=True)
    )
    for (i, one), (j, two) in product(enumerate(names[0]), enumerate(names[1])):
        there = all_there[two]
        mine = all_held[one] & guesses.keys()
        its = there & {*guesses.values()}
        both = sum(guesses[name] in there for name in mine)
        most = max(len(mine), len(its))
        away = len(mine) - both + len(its) - both
        expected = max(1 - 2 * away / (1 + 0.1 * most), -1) if most else 0.0
        assert abs(found[i, j] - expected) < 1e-9
