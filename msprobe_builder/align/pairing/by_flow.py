"""What flows between calls as evidence, where the values of the two sides do not agree.

Other weights, another seed: no tensor is equal on both sides. Yet within each side it is known who
put out what a call takes in, and that agrees wherever the two do the same. Query and key are told
apart by the places where the product of both takes them in.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.flow import Flow, guessed
from msprobe_builder.align.evidence.operators import maybe_hands_on, moves, numbers_of
from msprobe_builder.align.evidence.sizes import takes_more
from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.align.pairing.across import around
from msprobe_builder.align.pairing.edges import FAR, Edge, Edges, Kinds
from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.align.pairing.twins import doubt_twins, trade_twins
from msprobe_builder.base.codes import Evidence
from msprobe_builder.dump.parameters import Section
from msprobe_builder.match.matching import Group
from msprobe_builder.operators.questions import adds, any_of

Int = NDArray[np.int64]

_ROUNDS = 8  # of finding what follows from what was found
_WEIGHT = 3.0  # of a pair that its neighbours show


def by_flow(
    pairs: Pairs, flow: Flow, other: Flow, operators: dict[str, int], *, is_complete: bool
) -> int:
    """Take back what contradicts the flow of tensors, and match what it shows; how many pairs.

    Nothing is done where equal values tell. Where all calls of one side have partners
    (``is_complete``) networks trade theirs and nothing else.
    """
    if pairs.known.trust.equal:
        return 0
    kinds = Kinds.of(operators)
    commuting = kinds.commuting
    edges = Edges.of(flow, pairs.npu, commuting), Edges.of(other, pairs.bench, commuting)
    if not edges[0].given or not edges[1].given:
        if is_complete:
            return 0
        products = pairs.known.products
        flow, other = guessed(pairs.npu, flow, products), guessed(pairs.bench, other, products)
        edges = Edges.of(flow, pairs.npu, commuting), Edges.of(other, pairs.bench, commuting)
        doubt_twins(pairs, edges, kinds)
        return 0
    # What is half found must not give way to what only lacks less.
    total = 0 if is_complete else _match_all(pairs, edges, (flow, other), kinds.commuting)
    traded = trade_twins(pairs, edges, kinds)
    if is_complete:
        return traded
    return total + traded + _match_all(pairs, edges, (flow, other), kinds.commuting)


def _match_all(
    pairs: Pairs,
    edges: tuple[Edges, Edges],
    flows: tuple[Flow, Flow],
    commuting: frozenset[int],
) -> int:
    """Match what follows from what was found, as long as there is more; how many were found."""
    total = 0
    for _ in range(_ROUNDS):
        found = _match(pairs, edges, flows, commuting)
        total += found
        if not found:
            break
    return total


def take_back_moved(
    pairs: Pairs, flow: Flow, other: Flow, operators: dict[str, int], groups: list[Group]
) -> None:
    """Leave grey calls that only move elements, where these were put out by other calls.

    What computed them on the two sides must be a pair, belong to one group, or both have no
    partner. Where nothing tells who computed what, the call before or behind one must be the
    partner of that before or behind the other, and where one side tells, a call that has no partner
    must not stand before it: such calls are too much alike to be known by their order alone. A sum
    that has no partner is seen through: one side adds a bias by a call.
    """
    if pairs.known.trust.equal:
        return
    if not (flow.source >= 0).any() or not (other.source >= 0).any():
        nodes, own, its = _neighbours(pairs, flow, other, groups)
        for i in nodes[~((own >= 0) & (own == its)).any(axis=0)].tolist():
            pairs.take_back(i)
        return
    moving = numbers_of(operators, any_of(moves, maybe_hands_on))
    first, second = (
        _computed_by(one, np.isin(side.operator, moving))
        for one, side in ((flow, pairs.npu), (other, pairs.bench))
    )
    number, other_number = np.full(len(first), -1), np.full(len(second), -2)
    for place, group in enumerate(groups):
        number[list(group.npu)] = other_number[list(group.bench)] = place
    sums = numbers_of(operators, adds)
    alone = np.isin(pairs.npu.operator, sums) & (pairs.partner < 0) & (number == -1)
    other_alone = np.isin(pairs.bench.operator, sums) & (pairs.back < 0) & (other_number == -2)
    first, second = _through(first, alone), _through(second, other_alone)
    moved = np.isin(pairs.npu.operator, moving) & (pairs.evidence > 0) & (pairs.partner >= 0)
    moved &= pairs.npu.forward
    for i in np.flatnonzero(moved & (first >= 0) & (second[pairs.partner] >= 0)).tolist():
        maker, another = int(first[i]), int(second[pairs.partner[i]])
        known = pairs.partner[maker] >= 0 or pairs.back[another] >= 0
        if known and pairs.partner[maker] != another and number[maker] != other_number[another]:
            pairs.take_back(i)
    nodes, (before, _), (its_before, _) = _neighbours(pairs, flow, other, groups)
    makers, others = first[nodes], second[pairs.partner[nodes]]
    alone = (makers >= 0) & (pairs.partner[makers] >= 0) & (others < 0) & (its_before < 0)
    alone |= (others >= 0) & (pairs.back[others] >= 0) & (makers < 0) & (before < 0)
    for i in nodes[moved[nodes] & alone].tolist():
        pairs.take_back(i)


def _through(maker: Int, alone: NDArray[np.bool_]) -> Int:
    """The same, calls that are ``alone`` replaced by what made what they take in first."""
    is_alone = (maker >= 0) & alone[maker]
    return np.where(is_alone & (maker[maker] >= 0), maker[maker], maker)


def _neighbours(pairs: Pairs, flow: Flow, other: Flow, groups: list[Group]) -> tuple[Int, Int, Int]:
    """Automatic pairs of moving calls, and what is before and behind each of both sides.

    These of shape (2, n), as numbers of pairs and groups, -1 of what has neither; what only moves
    elements and has no partner is seen through.
    """
    moving = pairs.known.moving
    nodes = np.flatnonzero(np.isin(pairs.npu.operator, moving) & flow.is_leaf)
    nodes = nodes[(pairs.partner[nodes] >= 0) & (pairs.evidence[nodes] > 0)]
    nodes = nodes[other.is_leaf[pairs.partner[nodes]]]
    size = len(pairs.partner)
    debug = np.where(pairs.partner >= 0, np.arange(size), -1)  # what both sides call one thing
    reference = pairs.back.copy()
    for place, group in enumerate(groups):
        debug[list(group.npu)] = reference[list(group.bench)] = size + place
    around = _around(pairs.npu, flow, debug, moving, nodes)
    its = _around(pairs.bench, other, reference, moving, pairs.partner[nodes])
    return nodes, np.stack(around), np.stack(its)


def _around(side: Traits, flow: Flow, known: Int, moving: Int, nodes: Int) -> tuple[Int, Int]:
    """What is known of the call before each node and of the one behind it, -1 for nothing."""
    seen = flow.is_leaf & ((known >= 0) | ~np.isin(side.operator, moving))
    leaves = np.flatnonzero(seen)
    place = np.searchsorted(leaves, nodes)  # nodes have partners: they are among these
    result = np.r_[-1, known[leaves], -1]
    return result[place], result[place + 2]


def _computed_by(flow: Flow, moves: NDArray[np.bool_]) -> Int:
    """Of each node the call that computed what is first in what it takes in, -1 where unknown."""
    table = flow.table
    first = np.full(len(moves), -1, dtype=np.int64)
    is_leaf = flow.is_leaf[table.node]
    rows = np.flatnonzero((table.section == Section.INPUT) & table.is_tensor & is_leaf)
    if not len(rows):
        return first
    first[table.node[rows][::-1]] = rows[::-1]
    source = np.where(first >= 0, flow.source[first], -1)
    maker = np.where(source >= 0, table.node[source], -1)
    result = maker.copy()
    for _ in range(FAR):
        further = (result >= 0) & moves[result]
        if not further.any():
            break
        result = np.where(further, maker[result], result)
    return np.where((result >= 0) & moves[result], -1, result)


def _match(
    pairs: Pairs,
    edges: tuple[Edges, Edges],
    flows: tuple[Flow, Flow],
    commuting: frozenset[int],
) -> int:
    """Match what alone is given or taken in by a pair at one place; how many were found."""
    votes: dict[tuple[int, int], int] = Counter()
    for i in np.flatnonzero(flows[0].is_leaf & (pairs.partner >= 0)).tolist():
        j = int(pairs.partner[i])
        debug, reference = edges[0].given.get(i, {}), edges[1].given.get(j, {})
        if int(pairs.npu.operator[i]) in commuting:
            _vote_for_last(pairs, votes, debug, reference)
        else:
            for place in debug.keys() & reference.keys():
                if debug[place][1] == reference[place][1]:
                    _vote(pairs, votes, debug[place][0], reference[place][0])
        free, other_free = (
            _takers(side, one.taken.get(node, ()), partner)
            for side, one, node, partner in (
                (pairs.npu, edges[0], i, pairs.partner),
                (pairs.bench, edges[1], j, pairs.back),
            )
        )
        for key, node in free.items():
            if node >= 0 and other_free.get(key, -1) >= 0:
                _vote(pairs, votes, node, other_free[key])
    rows, columns = Counter(i for i, _ in votes), Counter(j for _, j in votes)
    found = 0
    for i, j in votes:
        if rows[i] == columns[j] == 1 and around(pairs, np.array([i]), np.array([j])).all():
            found += pairs.add(i, j, Evidence.INSIDE, _WEIGHT)
    return found


def _vote(pairs: Pairs, votes: dict[tuple[int, int], int], i: int, j: int) -> None:
    npu, bench, extent = pairs.npu, pairs.bench, pairs.known.trust.extent
    if pairs.partner[i] >= 0 or pairs.back[j] >= 0 or npu.operator[i] != bench.operator[j]:
        return
    one = np.array([i]), np.array([j])
    if npu.operator[i] not in pairs.known.moving and takes_more(npu, bench, *one).any():
        return
    if extent(npu.outputs)[i] == extent(bench.outputs)[j]:
        votes[i, j] += 1


def _vote_for_last(
    pairs: Pairs,
    votes: dict[tuple[int, int], int],
    debug: dict[int, Edge],
    reference: dict[int, Edge],
) -> None:
    """Of terms whose order says nothing, the last that has no partner."""
    makers = {maker for maker, _ in debug.values()}
    others = {maker for maker, _ in reference.values()}
    left = {maker for maker in makers if int(pairs.partner[maker]) not in others}
    right = {maker for maker in others if int(pairs.back[maker]) not in makers}
    if len(makers) == len(others) and len(left) == len(right) == 1:
        _vote(pairs, votes, left.pop(), right.pop())


def _takers(side: Traits, taken: list[Edge] | tuple[()], partner: Int) -> dict[Edge, int]:
    """By operator and place, the one free call that takes a tensor in; -1 where there are more."""
    result: dict[Edge, int] = {}
    for node, place in taken:
        key = int(side.operator[node]), place
        result[key] = -1 if key in result or partner[node] >= 0 else node
    return result
