"""Two drawn sides with pairs and the flow on each: what the nodes around a call are, plainly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np

from msprobe_builder.align.pairing.edges import Edges, Kinds
from msprobe_builder.dump.names import Direction, Kind
from tests.alignment.drawn_sides import UNKNOWN, altered, some_pairs, some_plain
from tests.alignment.plain_flows import Edge, some_flow
from tests.alignment.plain_sides import Node, Plain, both_of, shapes

Pair = tuple[int, int]


def two_networks(
    random: Random, order: str, body: tuple[int, ...], ends: tuple[int, int]
) -> tuple[Plain, dict[Edge, Edge]]:
    """Networks that are given one tensor, what is made of each, and what joins both."""
    one = UNKNOWN[:1]
    nodes, given = [Node(direction=Direction.NONE)], dict[Edge, Edge]()

    def call(operator: int, above: int, *makers: int) -> int:
        facts: dict[str, Any] = {"operator": operator, "kind": Kind.API, "outputs": one}
        nodes.append(Node(f"Torch.op{operator}", above, inputs=one * len(makers), **facts))
        given.update({(len(nodes) - 1, place): (maker, 0) for place, maker in enumerate(makers)})
        return len(nodes) - 1

    first, results = call(1, 0), dict[str, int]()
    for name in order:
        nodes.append(Node(f"Module.{name}.Part", inputs=one, outputs=one))
        module, result = len(nodes) - 1, first
        for operator in body:
            result = call(operator, module, result)
        results[name] = result
    made = [*zip("ab", ends, strict=True)]
    if random.random() < 0.3:  # an author makes the second first
        made.reverse()
    after = {name: call(end, 0, results[name]) for name, end in made}
    call(1, 0, after["a"], after["b"])
    return Plain(nodes), given


class Drawn:
    """Two sides with pairs, and the flow on each, plainly."""

    def __init__(
        self, random: Random, *, known: float = 0.9, modules: float = 0.3, twins: float = 0.3
    ) -> None:
        if random.random() < twins:
            chosen = self._draw_networks(random, known)
        else:
            chosen = self._draw_any(random, known, modules)
        left, right = self.sides
        asked = [one for one in chosen if random.random() < 0.05]
        self.sites = [np.array(random.choices([0, 0, 1, 2], k=len(one))) for one in self.sides]
        exact = np.array([chosen.get(one, -1) for one in range(len(left))])
        exact[[random.random() < 0.5 for _ in exact]] = -1
        facts = {"site": self.sites[0], "other_site": self.sites[1], "exact": exact}
        self.both = both_of(left, right, chosen, asked=asked, **facts)
        self.pairs = self.both.pairs
        self.kinds = Kinds(
            frozenset(random.choice([(), (1,)])),
            frozenset(),
            frozenset(random.choice([(), (0,), (0, 1)])),
        )
        sides = self.pairs.npu, self.pairs.bench
        commuting = self.kinds.commuting
        self.edges = (
            Edges.of(self.flows[0].flow, sides[0], commuting),
            Edges.of(self.flows[1].flow, sides[1], commuting),
        )
        self.partner = self.both.partners
        self.back = {two: one for one, two in self.partner.items()}

    def _draw_any(self, random: Random, known: float, modules: float) -> dict[int, int]:
        facts: dict[str, Any] = {"palette": UNKNOWN[:2], "operators": 2, "modules": modules}
        left = some_plain(random, 11, **facts)
        is_same = random.random() < 0.6
        right = left if is_same else altered(random, left, 0.1)
        self.sides = left, right
        flows = [some_flow(random, side, known) for side in self.sides]
        if is_same and random.random() < 0.7:
            flows[1] = flows[0]
        self.flows = flows[0], flows[1]
        chosen = some_pairs(random, left, right, 0.8, alike=True)
        if is_same and random.random() < 0.6:
            chosen = {one: one for one in chosen if random.random() < 0.9}
            for _ in range(random.randint(0, 2)):  # twins that have one another's partners
                one, two = (random.choice([*chosen] or [0]) for _ in range(2))
                if one and two and left[one].operator == left[two].operator:
                    chosen[one], chosen[two] = chosen[two], chosen[one]
        return chosen

    def _draw_networks(self, random: Random, known: float) -> dict[int, int]:
        """Two networks of one shape, perhaps in another order, paired as they come."""
        order = random.choice(["ab", "ba", "ba"])
        ends = random.choice([(2, 3), (2, 3), (2, 2)])
        body = random.choice([(0, 1, 0), (0,)])
        sides = two_networks(random, "ab", body, ends), two_networks(random, order, body, ends)
        self.sides = sides[0][0], sides[1][0]
        flows = [some_flow(random, plain, told=told if known else {}) for plain, told in sides]
        self.flows = flows[0], flows[1]
        chosen = {}
        for node in range(1, len(self.sides[0])):
            one = self.sides[0][node]
            same = [
                other
                for other in range(1, len(self.sides[1]))
                if (self.sides[1][other].operator, self.sides[1][other].kind)
                == (one.operator, one.kind)
            ]
            turn = [
                other
                for other in range(1, node)
                if (self.sides[0][other].operator, self.sides[0][other].kind)
                == (one.operator, one.kind)
            ]
            if len(turn) < len(same) and random.random() < 0.93:
                chosen[node] = same[len(turn)]
        return chosen

    def forget(self, side: int) -> None:
        """Of one side nothing is known of who makes what."""
        flows = [*self.flows]
        nobody = np.full_like(flows[side].flow.source, -1)
        flow = replace(flows[side].flow, source=nobody, producer=nobody)
        flows[side] = replace(flows[side], given={}, flow=flow)
        self.flows = flows[0], flows[1]

    def given(self, side: int, node: int) -> dict[int, Edge]:
        """By place who made what a node takes in; not what it is given by itself."""
        found = self.flows[side].given.items()
        return {place: edge for (one, place), edge in found if one == node}

    def takers(self, side: int, node: int) -> list[Edge]:
        """Who takes in what a node puts out, and where; terms that trade places have none."""
        return [
            (one, -1 if self.sides[side][one].operator in self.kinds.commuting else place)
            for one, place in self.flows[side].takers(node)
        ]

    def alike(self, i: int, j: int) -> bool:
        one, other = self.sides[0][i], self.sides[1][j]
        return (
            not self.pairs.asked[i]
            and one.operator == other.operator
            and all(
                shapes(getattr(one, part)) == shapes(getattr(other, part))
                for part in ("inputs", "outputs", "parameters")
            )
        )

    def behind(self, side: int, node: int, far: int = 0) -> set[int] | None:
        """The nearest that have a partner or weights; None where that is not known."""
        partner = (self.partner, self.back)[side]
        one = self.sides[side][node]
        maps = self.kinds.maps
        if node in partner or (maps and (one.operator in maps or one.parameters)):
            return {node}
        given = self.given(side, node)
        if not given or far >= 12:
            return set() if maps else None
        found = [self.behind(side, maker, far + 1) for maker, _ in given.values()]
        known = [one for one in found if one is not None]
        return set().union(*known) if len(known) == len(found) else None

    def origins(self, i: int, j: int) -> Iterator[tuple[set[int], set[int]]]:
        given = self.given(0, i), self.given(1, j)
        commutes = self.sides[0][i].operator in self.kinds.commuting
        if commutes and len(given[0]) != len(given[1]):
            return
        places = [[place] for place in sorted(given[0].keys() & given[1].keys())]
        several = [sorted(given[0]), sorted(given[1])]
        for one, other in (
            [(several[0], several[1])] if commutes else zip(places, places, strict=True)
        ):
            makers = [given[0][place][0] for place in one], [given[1][place][0] for place in other]
            if len(makers[0]) == 1 and self.alike(makers[0][0], makers[1][0]):
                yield {makers[0][0]}, {makers[1][0]}
                continue
            found = []
            for side in (0, 1):
                parts = [self.behind(side, maker) or set() for maker in makers[side]]
                found.append(set().union(*parts))
            yield found[0], found[1]

    def apart(self, debug: set[int], reference: set[int]) -> tuple[set[int], set[int]]:
        return (
            {one for one in debug if self.partner.get(one) not in reference},
            {one for one in reference if self.back.get(one) not in debug},
        )

    def asked_for(self, i: int, j: int) -> Iterator[Pair]:
        for debug, reference in self.origins(i, j):
            left, right = self.apart(debug, reference)
            fits = [(one, two) for one in left for two in right if self.alike(one, two)]
            if len(fits) == 1:
                yield fits[0]

    def other_takers(self, i: int, j: int) -> Iterator[Pair]:
        given = self.given(0, i), self.given(1, j)
        for place, (maker, _) in given[0].items():
            its = self.partner.get(maker, -1)
            if its < 0 or place not in given[1] or given[1][place][0] == its:
                continue
            takers = [node for node, where in self.takers(1, its) if where == place]
            takers = [one for one in takers if self.operator(1, one) == self.operator(0, i)]
            if len(takers) == 1:
                yield i, takers[0]

    def operator(self, side: int, node: int) -> int:
        return self.sides[side][node].operator

    def go_alike(self, i: int, j: int) -> bool:
        """Whether the same operators take in what both put out."""
        kinds = [
            Counter(self.operator(side, node) for node, _ in self.takers(side, one))
            for side, one in enumerate((i, j))
        ]
        return bool(kinds[0]) and kinds[0] == kinds[1]

    def told_by_takers(self) -> Iterator[Pair]:
        for i in self.edges[0].given:
            j = self.partner.get(i, -1)
            if j < 0 or self.operator(0, i) not in self.kinds.maps or self.go_alike(i, j):
                continue
            beside = {
                node
                for maker, _ in self.given(0, i).values()
                for node, _ in self.takers(0, maker)
                if node != i and node in self.partner and self.alike(node, j)
            }
            fits = [node for node in beside if self.go_alike(node, j)]
            if len(fits) == 1 and self.go_alike(i, self.partner[fits[0]]):
                yield i, self.partner[fits[0]]

    def one_taker(self, i: int, j: int) -> list[Pair]:
        """Of each operator and place the only call that takes a tensor in, on both sides."""
        found = []
        for side, node in enumerate((i, j)):
            keys: dict[Edge, list[int]] = {}
            for taker, place in self.takers(side, node):
                keys.setdefault((self.operator(side, taker), place), []).append(taker)
            found.append({key: one[0] for key, one in keys.items() if len(one) == 1})
        return [(found[0][key], found[1][key]) for key in found[0].keys() & found[1].keys()]

    def agreeing(self, nodes: set[int], partner: dict[int, int]) -> int:
        """How many neighbours are those of the partners, less those that are not."""
        before = self.partner, self.back
        self.partner, self.back = partner, {two: one for one, two in partner.items()}
        total = 0
        for i in nodes:
            if i in partner:
                for debug, reference in self.origins(i, partner[i]):
                    left, right = self.apart(debug, reference)
                    total += len(debug - left) - min(len(left), len(right))
        self.partner, self.back = before
        return total

    def gains(self, new: dict[int, int]) -> bool:
        concerned = {*new} | {taker for one in new for taker, _ in self.takers(0, one)}
        after = {one: two for one, two in self.partner.items() if one not in new}
        after |= {one: two for one, two in new.items() if two >= 0}
        sums = []
        for partner in (self.partner, after):
            maps = [one for one in new if self.operator(0, one) in self.kinds.maps]
            alike = sum(one in partner and self.go_alike(one, partner[one]) for one in maps)
            sums.append(self.agreeing(concerned, partner) + alike)
        return sums[1] > sums[0]


def thinned(random: Random, drawn: Drawn, share: float = 0.4) -> Drawn:
    """Some pairs are still to be found."""
    for i, j in [*drawn.partner.items()]:
        if i and random.random() < share:
            drawn.pairs.partner[i], drawn.pairs.back[j] = -1, -1
            drawn.pairs.evidence[i] = 0
            del drawn.partner[i], drawn.back[j]
    return drawn
