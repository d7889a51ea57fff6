"""How well two nodes agree, as a sum that is made one pair and one tensor at a time."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product
from random import Random
from typing import Any, cast

import numpy as np
from hypothesis import given, settings

from msprobe_builder.align.evidence.guesses import held_guesses
from msprobe_builder.align.evidence.holding import holds
from msprobe_builder.align.evidence.scores import IMPOSSIBLE, Known, scores
from msprobe_builder.align.evidence.sizes import given_other_sizes, other_form, takes_more
from msprobe_builder.align.evidence.trust import Trust, trust_of
from msprobe_builder.align.evidence.words import Words
from msprobe_builder.dump.names import parse_name
from msprobe_builder.operators.table import paired_name
from tests.alignment.test_plain_decisions import operators_of
from tests.alignment.test_plain_hierarchies import some_hierarchy
from tests.alignment.test_traits import joined, level_of, numel, some_dump
from tests.alignment.two_programs import Part, read_parts, two_programs
from tests.builder.small_dumps import Record
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS

Pair = tuple[int, str, int, str]  # place and name on both sides


def shapes_of(tensors: list[Record]) -> Counter[str]:
    return Counter(str(one["shape"]) for one in tensors)


def ranks_of(tensors: list[Record]) -> Counter[int]:
    return Counter(len(one["shape"]) for one in tensors if one["shape"])


def size_of(tensors: list[Record]) -> int:
    return sum(map(numel, tensors))


def is_module(name: str) -> bool:
    return name.startswith("Module")


def does(call: str) -> str:
    """The operator of a call, whatever its spelling."""
    return paired_name(parse_name(call).stem)


class Drawn:
    """Two sides with all that is known of them, at random."""

    def __init__(self, random: Random) -> None:
        kind = random.randrange(3)
        dumps = (
            [*two_programs(random)[:2]]
            if kind == 0
            else [some_dump(random) if kind == 1 else some_hierarchy(random) for _ in "ab"]
        )
        self.sides = read_parts(random, dumps)
        chosen = [sorted(random.sample([*one.nodes], min(6, len(one.nodes)))) for one in self.sides]
        self.names = chosen
        self.a, self.b = (
            np.array([side.nodes[one] for one in names], dtype=np.int64)
            for side, names in zip(self.sides, chosen, strict=True)
        )
        self.depth, self.other_depth = (
            np.array(random.choices([0, 1], k=len(one))) for one in (self.a, self.b)
        )
        numbers = {**operators_of(self.sides[0]), **operators_of(self.sides[1])}
        sizes = [len(one.traits) for one in self.sides]

        def drawn(side: int, *values: int) -> Any:
            return np.array(random.choices(values, k=sizes[side]), dtype=np.int64)

        def kinds() -> Any:
            return np.array([one for one in numbers.values() if random.random() < 0.4], np.int64)

        self.trust = Trust(
            random.choice([0.0, 2.0]),
            random.choice([0.0, 1.0]),
            random.random() < 0.7,
            random.random() < 0.6,
            random.choice([0.0, 1.5]),
        )
        words = [Words(one.traits.outline.tree) for one in self.sides]
        self.known = Known(
            drawn(0, -1, *self.b.tolist()),
            words[0],
            words[1],
            drawn(0, 0, 1, 2),
            drawn(1, 0, 1, 2),
            drawn(0, 0, 1, 2),
            drawn(1, 0, 1, 2),
            drawn(0, -1, 0, 1),
            drawn(1, -1, 0, 1),
            self.trust,
            kinds(),
            kinds(),
            kinds(),
            kinds(),
            kinds(),
            drawn(0, 0, 1, 2),
            drawn(1, 0, 1, 2),
            drawn(0, -1, 0, 1),
            drawn(1, -1, 0, 1),
            drawn(0, -1, *self.b.tolist()),
            drawn(1, -1, *self.a.tolist()),
            around=np.array([drawn(0, 0, 1, 2) for _ in range(2)]),
            other_around=np.array([drawn(1, 0, 1, 2) for _ in range(2)]),
            shift={0: 1},
            stems={0: 1} if random.random() < 0.5 else {},
            taken_stems={1} if random.random() < 0.5 else set(),
        )
        if random.random() < 0.3:  # nothing is guessed of one side
            self.known.guess[:] = -1

    def tensors(self, side: int, name: str, section: str) -> list[Record]:
        return self.sides[side].dump.tensors(name, section)

    def agreement(self, mine: list[Record], its: list[Record], trust: Trust) -> float:
        return [0.0, trust.near, max(trust.equal, trust.near)][level_of(mine, its)]

    def flow(self, one: str, two: str) -> float:
        """Of what goes in and comes out: its extent, and whether it is the same."""
        trust, result = self.trust, 0.0
        for section, weight in (("inputs", 1.0), ("outputs", 1.2)):
            mine, its = self.tensors(0, one, section), self.tensors(1, two, section)
            is_form = ranks_of(mine) == ranks_of(its)
            if is_module(one):  # of what is put out the first counts
                first, other = (part if section == "inputs" else part[:1] for part in (mine, its))
                is_form |= size_of(first) == size_of(other) > 1
            if trust.same_shapes:
                is_same = shapes_of(mine) == shapes_of(its)
            elif trust.same_sizes:
                is_same = size_of(mine) == size_of(its)
            else:
                is_same = ranks_of(mine) == ranks_of(its)
            equal = 0.5 if trust.same_sizes and not trust.same_shapes else 0.8
            result += weight * (equal if is_same else 0.3 if is_form else -0.6)
            result += weight * self.agreement(mine, its, trust)
        return result

    def around(self, i: int, j: int) -> float:
        known = self.known
        alike = [
            bool(mine[self.a[i]] == its[self.b[j]] != 0)
            for mine, its in zip(known.around, known.other_around, strict=True)
        ]
        return 0.15 * sum(alike)

    def other_outputs(self, one: str, two: str) -> bool:
        x, y = size_of(self.tensors(0, one, "outputs")), size_of(self.tensors(1, two, "outputs"))
        return self.trust.same_sizes and x > 0 and y > 0 and x != y

    def of_calls(self, pair: Pair) -> float:
        i, one, j, two = pair
        left, right = self.sides
        known, trust, a, b = self.known, self.trust, self.a[i], self.b[j]
        if does(one) != does(two):
            return IMPOSSIBLE
        operator = left.traits.operator[a]
        result = 2.0 + self.flow(one, two) + self.around(i, j)
        result += 0.5 * (left.dump.arguments(one) == right.dump.arguments(two))
        result += 0.6 * (self.depth[i] == self.other_depth[j])
        if known.stem[a] == known.other_stem[b]:
            shift = known.shift.get(int(known.stem[a]), 0)
            result += 0.6 if known.call[a] - shift == known.other_call[b] else 0.3
        is_layout, is_padded = operator in known.layouts, operator in known.padded
        at = np.array([a]), np.array([b])
        if takes_more(left.traits, right.traits, *at)[0, 0] and not (
            is_padded or operator in known.moving
        ):
            result -= 1.5
        made, its = self.tensors(0, one, "outputs"), self.tensors(1, two, "outputs")
        other_sizes = self.other_outputs(one, two)
        small, large = sorted([size_of(made), size_of(its)])
        far = trust.same_sizes and large >= 1.5 * small > 0 and len(made) == len(its)
        given, given_there = self.tensors(0, one, "inputs"), self.tensors(1, two, "inputs")
        is_same = bool(trust.equal) and level_of(given, given_there) == 2
        if other_sizes:
            result -= 2.0 if is_padded or (is_same and not is_layout) else 4.0
        if far and not is_same:
            result -= 5.0
        if trust.same_shapes and not trust.equal and is_layout:
            result -= 3.0 * other_form(left.traits, right.traits, *at)[0, 0]
        if operator in known.taking and len(given) != len(given_there):
            result -= 4.0
        lines = int(known.site[a]), int(known.other_site[b])
        if 0 not in lines:
            result += 1.0 if lines[0] == lines[1] else -4.0
        guesses = int(known.guess[a]), int(known.other_guess[b])
        if guesses[0] == b:
            return float(result + 2.5)
        return float(result - 2.5 * (max(guesses) >= 0))

    def of_modules(self, pair: Pair, words: float) -> float:
        i, one, j, two = pair
        left, right = (side.traits for side in self.sides)
        known, a, b = self.known, self.a[i], self.b[j]
        at = np.array([a]), np.array([b])
        result = 0.8 + words + self.flow(one, two) + self.around(i, j)
        result += self.parameters(one, two) + self.work(one, two)
        if self.trust.same_sizes and given_other_sizes(left, right, *at)[0, 0]:
            result -= 1.5
        sizes = [self.below(side, name)[1] for side, name in ((0, one), (1, two))]
        result -= 5.0 * (sizes[0] != sizes[1] and self.other_outputs(one, two))
        held, its = self.tensors(0, one, "parameters"), self.tensors(1, two, "parameters")
        twins = int(known.twin[a]), int(known.other_twin[b])
        if twins[0] != twins[1]:
            result -= 7.0 if held else 5.0
        for inner in (holds(left, right, *at), holds(right, left, *at[::-1])):
            result -= inner[0, 0] * (8.0 if bool(held) != bool(its) else 5.0)
        if self.trust.equal:
            both = int(known.hands_on[a]), int(known.other_hands_on[b])
            result -= 5.0 * (sorted(both) == [0, 1])
            made = self.tensors(0, one, "outputs"), self.tensors(1, two, "outputs")
            result -= 2.0 * (both == (1, 1) and level_of(*made) == 0)
        result += 0.3 * (self.depth[i] == self.other_depth[j])
        result += 4.0 * (known.exact[a] == b)
        result += 2.5 * held_guesses(left, right, *at, (known.guess, known.other_guess))[0, 0]
        stem, other = int(known.stem[a]), int(known.other_stem[b])
        result += 1.5 * (stem == other)
        if known.stems.get(stem) == other:
            return float(result + 4.0)
        is_taken = stem in known.stems or other in known.taken_stems
        return float(result - 2.0 * is_taken)

    def below(self, side: int, name: str) -> tuple[float, float]:
        """Sum of squares, and number of elements, of all parameters in a module."""
        held = [
            one
            for inner in self.sides[side].dump.inside(name)
            for one in self.tensors(side, inner, "parameters")
        ]
        return sum((one["Norm"] or 0.0) ** 2 for one in held), size_of(held)

    def parameters(self, one: str, two: str) -> float:
        held, its = self.tensors(0, one, "parameters"), self.tensors(1, two, "parameters")
        below, other_below = self.below(0, one), self.below(1, two)
        result = -1.5 if bool(held) != bool(its) else 0.0
        if held and its:
            is_form = ranks_of(held) == ranks_of(its)
            same = shapes_of(held) == shapes_of(its) if self.trust.same_sizes else is_form
            is_size = size_of(held) == size_of(its)
            result += 1.0 if same else 0.3 if is_size else -0.7 if is_form else -2.0
            result += self.trust.weights * self.agreement(held, its, Trust(2.0, 1.0))
        squares, sizes = (
            x > 0 and abs(x - y) <= 1e-3 * max(x, y)
            for x, y in zip(below, other_below, strict=True)
        )
        result += 0.8 * sizes + self.trust.weights * (squares and sizes)
        roots = [
            any(self.below(side, name)[1] for name in self.sides[side].nodes) for side in (0, 1)
        ]
        if all(roots):
            result -= 3.0 * ((below[1] > 0) != (other_below[1] > 0))
            hollow = below[1] == 0 and other_below[1] > size_of(its)
            hollow |= other_below[1] == 0 and below[1] > size_of(held)
            result -= 5.0 * hollow
        return result

    def work(self, one: str, two: str) -> float:
        counts = [
            Counter(does(call) for call in side.dump.inside(name) if not is_module(call))
            for side, name in zip(self.sides, (one, two), strict=True)
        ]
        if not all(counts):
            return 0.0
        common = sum((counts[0] & counts[1]).values())
        return 3.5 * 2 * common / sum(one.total() for one in counts) - 1.5


@settings(max_examples=costly_examples(50))
@given(RANDOMS)
def test_evidence_is_the_sum_of_what_speaks_for_and_against_a_pair(random: Random) -> None:
    drawn = Drawn(random)
    left, right = (side.traits for side in drawn.sides)
    known = drawn.known
    found = scores(left, right, drawn.a, drawn.b, drawn.depth, drawn.other_depth, known)
    modules = [[place for place, one in enumerate(of) if is_module(one)] for of in drawn.names]
    alike = np.array(
        [
            [
                drawn.below(0, drawn.names[0][i])[1] == drawn.below(1, drawn.names[1][j])[1] > 0
                for j in modules[1]
            ]
            for i in modules[0]
        ],
        dtype=bool,
    ).reshape(len(modules[0]), len(modules[1]))
    words = known.words.agreement(
        drawn.a[modules[0]],
        known.other_words,
        drawn.b[modules[1]],
        alike,
        sizes_tell=drawn.trust.same_sizes,
    )
    for (i, one), (j, two) in product(enumerate(drawn.names[0]), enumerate(drawn.names[1])):
        if is_module(one) != is_module(two):
            expected = IMPOSSIBLE
        elif is_module(one):
            said = float(words[modules[0].index(i), modules[1].index(j)])
            expected = drawn.of_modules((i, one, j, two), said)
        else:
            expected = drawn.of_calls((i, one, j, two))
        assert abs(found[i, j] - expected) < 1e-6, (one, two)


def plain_trust(sides: list[Part], pairs: list[tuple[str, str]]) -> Trust:
    """What agrees, and of how many elements, of pairs of nodes in their order."""

    def of(pair: tuple[str, str], section: str) -> tuple[list[Record], list[Record]]:
        mine, its = (
            side.dump.tensors(name, section) for side, name in zip(sides, pair, strict=True)
        )
        return mine, its

    def share(held: list[bool]) -> float:
        return sum(held) / len(held)

    weighed = [one for one in pairs if all(of(one, "parameters"))]
    weights = [of(one, "parameters") for one in weighed]
    tells = not weights or share([level_of(*one) > 0 for one in weights]) >= 0.5
    total = same = 0
    for mine, its in weights:
        x, y = joined(mine), joined(its)
        if any(map(math.isnan, x + y)) or size_of(mine) != size_of(its):
            continue
        total += size_of(mine)
        is_near = all(abs(p - q) <= max(abs(p), abs(q)) / 256 for p, q in zip(x, y, strict=True))
        same += size_of(mine) * is_near
    differ = 2 * same < total
    trust = 0.0 if differ or not tells else 1.5
    last = [one for one in weighed if size_of(of(one, "outputs")[0]) > 1][-1:]
    others = differ and not any(level_of(*of(one, "outputs")) == 2 for one in last)
    made = [of(one, "outputs") for one in pairs]
    made = [one for one in made if min(map(size_of, one)) > 1]
    if not made:
        return Trust(weights=trust)
    found = [level_of(*one) for one in made]
    equal, near = share([one == 2 for one in found]), share([one > 0 for one in found])
    return Trust(
        2.0 if equal >= 0.08 and not others else 0.0,
        1.0 if near - equal >= 0.08 and near >= 0.4 and not others else 0.0,
        share([size_of(x) == size_of(y) for x, y in made]) >= 0.5,
        share([shapes_of(x) == shapes_of(y) for x, y in made]) >= 0.5,
        trust if weights or (equal >= 0.08 and not others) else 0.0,
    )


@settings(max_examples=costly_examples(40))
@given(RANDOMS)
def test_trust_is_told_by_shares_of_pairs_and_of_weights(random: Random) -> None:
    sides = read_parts(random, [random.choice([some_dump, some_hierarchy])(random) for _ in "ab"])
    for _ in range(6):
        count = random.randint(1, 15)
        chosen = [random.choices([*side.nodes], k=count) for side in sides]
        pairs = [*zip(*chosen, strict=True)]
        a, b = (
            np.array([side.nodes[one] for one in names])
            for side, names in zip(sides, chosen, strict=True)
        )
        found = trust_of(sides[0].traits, sides[1].traits, a, b)
        assert found == plain_trust(sides, cast("Any", pairs))
