"""Groups between pairs: what both sides make of the same tensors for one call that takes it in.

A pair of calls takes in a tensor that calls without a partner made. Behind it, on either side, are
tensors that pairs put out. Where these are the same, the calls between do the same, however many
they are. Calls are looked at in the order of the program, so that what stands behind is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.flow import Flow, inputs_of, outputs_of
from msprobe_builder.align.groups.biases import linear_of, with_biases
from msprobe_builder.align.groups.crossed import take_back_crossed
from msprobe_builder.align.groups.fused import name_of
from msprobe_builder.align.groups.fused_linears import exchanged, find_linears
from msprobe_builder.align.groups.no_groups import are_pairs
from msprobe_builder.align.groups.ways import Side, Token, Way
from msprobe_builder.align.pairing.edges import Kinds
from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.base.codes import Evidence
from msprobe_builder.match.matching import Group

Int = NDArray[np.int64]
Rows = tuple[int, int]

_BETWEEN = 0.85
_OPEN = 8  # tensors that wait for others that are made by the same calls


def find_between(
    pairs: Pairs, flow: Flow, other: Flow, groups: list[Group], kinds: Kinds
) -> list[Group]:
    """Groups that are known, linears that are fused or get their bias later, and those between.

    Where values tell these show what a bias belongs to.
    """
    is_equal, has_open = bool(pairs.known.trust.equal), _has_open(pairs, flow, other)
    if (is_equal and not all(has_open)) or (flow.is_guessed and not any(has_open)):
        return groups
    between = Between(pairs, flow, other, groups, kinds)
    if not is_equal and not flow.is_guessed:
        take_back_crossed(pairs, between.sides, kinds.commuting)
    between.fuse_linears()
    if not is_equal:
        between.add_biases()
    if all(_has_open(pairs, flow, other)):
        between.find()
    between.make_moves_again()
    return between.groups


def _has_open(pairs: Pairs, flow: Flow, other: Flow) -> list[bool]:
    """Of each side, whether a call has no partner."""
    sides = (flow, pairs.partner), (other, pairs.back)
    return [bool((one.is_leaf & (partner < 0)).any()) for one, partner in sides]


class Between:
    """Both sides, and the groups that were found."""

    def __init__(
        self,
        pairs: Pairs,
        flow: Flow,
        other: Flow,
        groups: Iterable[Group],
        kinds: Kinds,
    ) -> None:
        self.pairs, self.size, self.kinds = pairs, len(pairs.partner), kinds
        known = np.where(pairs.partner >= 0, np.arange(self.size), -1)
        self.sides = (
            Side(pairs.npu, flow, pairs, known, other.is_leaf[pairs.partner]),
            Side(pairs.bench, other, pairs, pairs.back.copy(), flow.is_leaf[pairs.back]),
        )
        self.groups: list[Group] = []
        self._open: list[tuple[Way, Way, list[Rows]]] = []
        self._moves: list[tuple[int, int, Evidence, float]] = []  # pairs that may be made again
        for group in groups:
            self._add(group)
        if not pairs.known.trust.equal and not flow.is_guessed:
            self._see_through_moves()

    def _see_through_moves(self) -> None:
        """Let pairs that only move elements be known by who computed them."""
        pairs = self.pairs
        calls = self.sides[0].flow.is_leaf & (pairs.partner >= 0)
        for node in np.flatnonzero(calls).tolist():
            nodes = node, int(pairs.partner[node])
            both = zip(self.sides, nodes, strict=True)
            if not all(side.only_moves(one) for side, one in both):
                continue
            if pairs.evidence[node] == 0 or pairs.asked[node]:
                for side, one in zip(self.sides, nodes, strict=True):
                    side.know([one], -1, [])
                    side.known[one] = node
                    side.moved.add(one)
            else:
                why = Evidence(int(pairs.evidence[node])), float(pairs.weight[node])
                self._moves.append((*nodes, *why))
                pairs.drop(node)
                for side, one in zip(self.sides, nodes, strict=True):
                    side.know([one], -1, [])

    def _add(self, group: Group) -> None:
        self.groups.append(group)
        self._know(len(self.groups) - 1)

    def _know(self, number: int) -> None:
        group = self.groups[number]
        for at, nodes in enumerate((group.npu, group.bench)):
            self.sides[at].know(nodes, self.size + number, [rows[at] for rows in group.rows])

    def _pair(self, node: int) -> None:
        """Let both calls of a new pair be known, and what both put out."""
        nodes = node, int(self.pairs.partner[node])
        made = [outputs_of(side.flow, one) for side, one in zip(self.sides, nodes, strict=True)]
        both = list(zip(*made, strict=False))
        for at, (side, one) in enumerate(zip(self.sides, nodes, strict=True)):
            side.know([one], node, [rows[at] for rows in both])

    def find(self) -> None:
        """Look behind all that calls and their counterparts take in, and what comes last."""
        leaves = [np.flatnonzero(side.flow.is_leaf) for side in self.sides]
        for node in leaves[0][self._may_have_more(leaves[0])].tolist():
            for made in self._places(node):
                self._look_behind(made)
        last = [
            outputs_of(side.flow, int(nodes[-1]))
            for side, nodes in zip(self.sides, leaves, strict=True)
        ]
        for made in zip(*last, strict=False):
            self._look_behind(made)

    def make_moves_again(self) -> None:
        """Match what was seen through and is still free."""
        for node, other, evidence, weight in self._moves:
            if self.sides[0].known[node] < 0 and self.sides[1].known[other] < 0:
                self.pairs.add(node, other, evidence, weight)

    def _may_have_more(self, nodes: Int) -> NDArray[np.bool_]:
        """Calls without a partner, and those that take in what such a call put out, or both do."""
        result = self.sides[0].known[nodes] < 0
        result |= self.sides[0].known[nodes] >= self.size
        for side, own in zip(self.sides, (nodes, self.pairs.partner[nodes]), strict=True):
            made = np.flatnonzero(side.flow.producer >= 0)
            maker = side.flow.table.node[side.flow.producer[made]]
            free = (side.known[maker] < 0) | np.isin(maker, list(side.moved))
            takers = side.flow.table.node[made[free]]
            result |= np.isin(own, takers)
        return result

    def _places(self, node: int) -> Iterator[Rows]:
        """Tensors that were put out and that a call and its counterpart take in at one place."""
        number = int(self.sides[0].known[node])
        flow, other = (side.flow for side in self.sides)
        if number < 0 or node in self.sides[0].moved:
            return
        if number >= self.size:
            rows = self.groups[number - self.size].rows
            both = [(row, place) for row, place in rows if flow.table.node[row] == node]
        else:
            given = inputs_of(flow, node), inputs_of(other, int(self.pairs.partner[node]))
            if int(self.pairs.npu.operator[node]) in self.kinds.commuting:
                yield from self._terms(*given)
                return
            both = self._in_order(node, *given)
        for row, place in both:
            made = self.sides[0].source(row), self.sides[1].source(place)
            if min(made) >= 0 and flow.table.numel[row] == other.table.numel[place]:
                yield made

    def _in_order(self, node: int, rows: list[int], places: list[int]) -> list[Rows]:
        """What two calls take in at one place: what calls computed, and what none did.

        A bias stands before or behind what is multiplied.
        """
        nodes = node, int(self.pairs.partner[node])
        own, other = (
            [[row for row in given if (row in without) == is_given] for is_given in (False, True)]
            for given, without in (
                (given, side.given(one))
                for side, one, given in zip(self.sides, nodes, (rows, places), strict=True)
            )
        )
        if len(own[0]) != len(other[0]):
            return list(zip(rows, places, strict=False))
        return [*zip(own[0], other[0], strict=True), *zip(own[1], other[1], strict=False)]

    def _terms(self, rows: list[int], places: list[int]) -> Iterator[Rows]:
        """The same of a sum, whose terms have no order: those that come of the same."""
        ways = []
        for side, given in zip(self.sides, (rows, places), strict=True):
            made = [side.source(row) for row in given]
            ways.append([(row, side.way(row)) for row in made if row >= 0])
        for row, one in ways[0]:
            fits = [other for other, two in ways[1] if one and two and one.tokens == two.tokens]
            if len(fits) == 1:
                yield row, fits[0]

    def _look_behind(self, made: Rows) -> None:
        """Make groups of what is behind two tensors, or leave them open."""
        one, two = (side.way(row) for side, row in zip(self.sides, made, strict=True))
        if one is None or two is None or not one.core | one.ahead | two.core | two.ahead:
            return
        results, rest = [made], []
        for first, second, rows in self._open:
            if first.core & one.core or second.core & two.core:
                one, two, results = one.joined(first), two.joined(second), [*rows, *results]
            else:
                rest.append((first, second, rows))
        if self._make_all(one, two, results):
            self._open = rest
        elif one.core and two.core:
            self._open = [*rest[-_OPEN:], (one, two, results)]

    def _make_all(self, one: Way, two: Way, made: list[Rows]) -> bool:
        """Make groups of two ways that come of the same, and of what others share with each."""
        both = list(zip(self.sides, (one, two), strict=True))
        shared = [side.shared(way) for side, way in both]
        if bool(shared[0]) != bool(shared[1]):  # a mask that all layers have, made of nothing
            for side, way in both:
                way.core -= side.constants(way)
            shared = [side.shared(way) for side, way in both]
        if bool(shared[0]) != bool(shared[1]) or not self._come_of_the_same(one, two):
            return False
        if shared[0]:
            if not one.core - shared[0] or not two.core - shared[1]:
                return False
            behind = [
                {side.behind(row, nodes) for node in nodes for row in side.made(node)} - {None}
                for side, nodes in zip(self.sides, shared, strict=True)
            ]
            if behind[0] != behind[1]:
                return False
            self._make(shared[0], shared[1], self._put_out(one, two, shared))
            one.core, two.core = one.core - shared[0], two.core - shared[1]
        if one.core and two.core:
            ends = [
                (self.sides[0].core_of(one, row), self.sides[1].core_of(two, place))
                for row, place in made
            ]
            self._make(one.core, two.core, ends)
        for token in filter(self._is_told, one.behind.keys() & two.behind.keys()):
            self._make_moves(one.behind[token], two.behind[token], [])
        is_told = all(map(self._is_told, one.tokens))
        if bool(one.core) != bool(two.core):
            # Else one side computes something of what the other one moves as it is.
            if all(side.all_move(way.core) for side, way in both):
                self._make(one.core | one.ahead, two.core | two.ahead, made)
            return True
        if is_told or (one.core and not self.sides[0].flow.is_guessed):
            for rows in made:
                ahead = [side.moved_to(row) for side, row in zip(self.sides, rows, strict=True)]
                if ahead[0] and ahead[1]:
                    self._make_moves(ahead[0], ahead[1], [rows])
        return True

    def _come_of_the_same(self, one: Way, two: Way) -> bool:
        """Whether the same tensors are behind two ways; if there are none, given ones as large."""
        both = list(zip(self.sides, (one, two), strict=True))
        if one.tokens != two.tokens or not all(side.is_whole(way) for side, way in both):
            return False
        sizes = [
            max((side.numel(row) for node in way.core for row in side.given(node)), default=0)
            for side, way in both
        ]
        return bool(one.tokens) or sizes[0] == sizes[1] > 0

    def _put_out(self, one: Way, two: Way, shared: list[set[int]]) -> list[Rows]:
        """What shared calls of both sides put out for others, if that is as large."""
        rows, places = (
            [row for node in sorted(nodes) for row in side.taken_outside(way, node)]
            for side, way, nodes in zip(self.sides, (one, two), shared, strict=True)
        )
        same = list(map(self.sides[0].numel, rows)) == list(map(self.sides[1].numel, places))
        return list(zip(rows, places, strict=True)) if same else []

    def _is_told(self, token: Token) -> bool:
        """Whether a tensor is known, and not one of several that are as large as it."""
        if not self.sides[0].flow.is_guessed:
            return token[1] >= 0
        return token[0] < self.size and self.sides[0].puts_out_one(token[0])

    def _make_moves(self, nodes: set[int], others: set[int], results: list[Rows]) -> None:
        """Match calls that move one tensor as they were matched before, or as one."""
        inside = [one for one in self._moves if one[0] in nodes and one[1] in others]
        if not inside:
            self._make(nodes, others, results)
        for node, other, evidence, weight in inside:
            if self.pairs.add(node, other, evidence, weight):
                self._pair(node)

    def _make(self, nodes: set[int], others: set[int], results: list[Rows]) -> None:
        npu, bench = sorted(nodes), sorted(others)
        both = zip(self.sides, (npu, bench), strict=True)
        if not npu or not bench or any((side.known[nodes] >= 0).any() for side, nodes in both):
            return
        made = [
            both
            for both in results
            if self.sides[0].node(both[0]) in nodes and self.sides[1].node(both[1]) in others
        ]
        rows = (*self._given(npu, bench), *made)
        name = name_of(self.pairs, npu, bench)
        group = Group(name, tuple(npu), tuple(bench), rows, _BETWEEN)
        if not are_pairs(self.pairs, group, by_place=True):
            self._add(group)
        for node in npu:
            if self.pairs.partner[node] >= 0:
                self._pair(node)

    def _given(self, npu: list[int], bench: list[int]) -> Iterator[Rows]:
        """What goes in on both sides; what is only moved before is seen through."""
        by_token: list[dict[Token, int]] = []
        for side, nodes in zip(self.sides, (npu, bench), strict=True):
            rows: dict[Token, int] = {}
            for row in (row for node in nodes for row in inputs_of(side.flow, node)):
                token = side.behind(side.source(row), nodes)
                if token:
                    rows.setdefault(token, row)
            by_token.append(rows)
        for token, row in by_token[0].items():
            if token in by_token[1]:
                yield row, by_token[1][token]

    def fuse_linears(self) -> None:
        """Let one linear be the counterpart of several that come of the same as it does."""
        tell = bool(self.pairs.known.trust.weights)
        for group in find_linears(*self.sides, self.kinds.maps, weights_tell=tell):
            self._add(group)
        for group in find_linears(*self.sides[::-1], self.kinds.maps, weights_tell=tell):
            self._add(exchanged(group))

    def add_biases(self) -> None:
        """Let sums that add what a linear map of the other side takes in be one with its pair."""
        pairs = self.pairs
        for number, group in enumerate(self.groups):
            self.groups[number] = with_biases(self.sides, group, self.kinds) or group
            self._know(number)
        maps = np.isin(pairs.npu.operator, list(self.kinds.maps)) & ~pairs.asked
        maps &= pairs.npu.inputs.count != pairs.bench.inputs.count[pairs.partner]
        for node in np.flatnonzero(maps & (pairs.partner >= 0)).tolist():
            both = linear_of(self.sides, node, int(pairs.partner[node]), _BETWEEN)
            grown = with_biases(self.sides, both, self.kinds)
            if grown:
                pairs.drop(node)
                self._add(grown)
