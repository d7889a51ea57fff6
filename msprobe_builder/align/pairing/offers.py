"""Who a node without a partner may belong to, where no alignment has left a choice.

What puts out the same tensor; what comes of the same pairs and is taken in by the same; what order
and flow of all calls leave possible; of modules, what holds the partners of what they hold; what
stands between the same partners; of backward calls, those of the candidates of their forward calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.flow import flow_of, guessed, is_leaf
from msprobe_builder.align.evidence.scores import THRESHOLD
from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.align.evidence.trust import levels
from msprobe_builder.align.pairing.anchors import by_micro_step
from msprobe_builder.align.pairing.links import forward_of
from msprobe_builder.align.pairing.offers_by_flow import offered_by_flow
from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.dump.names import Kind
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.match.matching import Group

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_LARGEST = 4_000_000  # nodes of both sides that are compared
_MOST = 5  # candidates of a node
_NEAR = 16  # free nodes between two partners, at most
_OFFERED = 1.0  # weight beyond the threshold
_AT_END = 0.12  # as much as a share, that two modules end with one pair
_GUESSED = 0.5  # of what flow says that is known by shapes alone
_CERTAIN = 2.0  # weight of what order and flow make certain
_EQUAL = 5.0  # the same of what puts out an equal tensor
_NONE: tuple[set[int], set[int]] = set(), set()


def offer_candidates(
    pairs: Pairs, table: ParameterTable, other: ParameterTable, groups: Sequence[Group]
) -> None:
    """Give nodes that have neither a partner nor a choice their likely partners."""
    _by_content(pairs)
    _by_values(pairs)
    if len(_free(pairs.npu, pairs.partner)) and len(_free(pairs.bench, pairs.back)):
        flows = flow_of(pairs.npu, table), flow_of(pairs.bench, other)
        if not any((flow.producer >= 0).any() for flow in flows):
            products = pairs.known.products
            sides = (pairs.npu, flows[0]), (pairs.bench, flows[1])
            flows = guessed(*sides[0], products), guessed(*sides[1], products)
        share = _GUESSED if flows[0].is_guessed else 1.0
        for i, j, weight in offered_by_flow(pairs, flows, groups):
            _offer(pairs, i, j, share * weight, is_more=True)
    _by_chances(pairs)
    _by_place(pairs)
    for choices in (one for side in pairs.open for one in side.values()):
        choices.sort(key=lambda one: (-one[1], one[0]))
        del choices[_MOST:]
    _by_forward(pairs)


def _free(side: Traits, partner: Int) -> Int:
    return np.flatnonzero(side.forward & (partner < 0) & (side.outline.kind != Kind.COLLECTION))


def _offer(
    pairs: Pairs,
    i: int,
    j: int,
    weight: float,
    but: tuple[set[int], set[int]] = _NONE,
    *,
    is_more: bool = False,
) -> None:
    """Add two nodes to each other's candidates, ``but`` not to those of some nodes of a side.

    Where one is a candidate, ``is_more`` evidence adds to its weight.
    """
    for side, own, other in ((0, i, j), (1, j, i)):
        if own in but[side]:
            continue
        choices = pairs.open[side].setdefault(own, [])
        known = [one for one, _ in choices]
        if other not in known:
            choices.append((other, THRESHOLD + weight))
        elif is_more:
            at = known.index(other)
            choices[at] = other, choices[at][1] + weight


def _by_chances(pairs: Pairs) -> None:
    for i, j, chance in pairs.known.chances:
        if pairs.partner[i] < 0 and pairs.back[j] < 0:
            _offer(pairs, i, j, _CERTAIN * chance, is_more=True)


def _by_values(pairs: Pairs) -> None:
    """Free nodes of one kind that put out one tensor, those of one operator and form first."""
    npu, bench = pairs.npu, pairs.bench
    if not pairs.known.trust.equal:
        return
    a, b = _free(npu, pairs.partner), _free(bench, pairs.back)
    if len(a) * len(b) > _LARGEST:
        return
    grid = a[:, None], b[None, :]
    same = levels(npu.outputs, bench.outputs, *grid) == 2
    same &= npu.outputs.numel[a][:, None] > 1
    same &= npu.outline.kind[a][:, None] == bench.outline.kind[b]
    same &= npu.outline.tree.micro_step[a][:, None] == bench.outline.tree.micro_step[b]
    same &= (same.sum(axis=1) <= _MOST)[:, None] & (same.sum(axis=0) <= _MOST)
    for row, column in zip(*np.nonzero(same), strict=True):
        i, j = int(a[row]), int(b[column])
        one, other = np.array([i]), np.array([j])
        weight = _EQUAL + 1.0 * float(npu.operator[i] == bench.operator[j])
        weight += 0.5 * float(npu.outputs.shapes[i] == bench.outputs.shapes[j])
        weight += 0.5 * float(levels(npu.inputs, bench.inputs, one, other)[0] == 2)
        _offer(pairs, i, j, weight)


def _by_place(pairs: Pairs) -> None:
    """Free nodes that hold nothing between the same partners, those of one operator first."""
    npu, bench = pairs.npu, pairs.bench
    has = set(pairs.open[0]), set(pairs.open[1])
    leaves = [by_micro_step(side, np.flatnonzero(is_leaf(side))) for side in (npu, bench)]
    for a, b in zip(*leaves, strict=False):
        place = np.full(len(bench), -1, dtype=np.int64)
        place[b] = np.arange(len(b))
        at = np.where(pairs.partner[a] >= 0, place[pairs.partner[a]], -1)
        x = np.flatnonzero(at >= 0)  # of these, what crosses no other
        behind = np.minimum.accumulate(at[x][::-1])[::-1]
        x = x[(at[x] == np.maximum.accumulate(at[x])) & (at[x] == behind)]
        free, gap = _in_gaps(np.flatnonzero(pairs.partner[a] < 0), x)
        others, other_gap = _in_gaps(np.flatnonzero(pairs.back[b] < 0), at[x])
        begin, end = (
            np.searchsorted(other_gap, gap - 1),
            np.searchsorted(other_gap, gap + 1, "right"),
        )
        for one, own, first, last in zip(a[free].tolist(), gap, begin, end, strict=True):
            near = b[others[first:last]]
            same = npu.operator[one] == bench.operator[near]
            as_much = npu.outputs.numel[one] == bench.outputs.numel[near]
            weight = same + 1.0 * (npu.outputs.shapes[one] == bench.outputs.shapes[near]) - 1.0
            weight -= 0.5 * (other_gap[first:last] != own)
            kind = (npu.operator[one] >= 0) == (bench.operator[near] >= 0)
            for number in np.flatnonzero(kind & (same | as_much)).tolist():
                _offer(pairs, one, int(near[number]), _OFFERED * float(weight[number]), has)


def _in_gaps(free: Int, known: Int) -> tuple[Int, Int]:
    """Places between known ones, and between which of them; none of long stretches."""
    gap = np.searchsorted(known, free)
    short = np.bincount(gap, minlength=1)[gap] <= _NEAR
    return free[short], gap[short]


def _by_content(pairs: Pairs) -> None:
    """Free modules around the calls of pairs, by the share of what they hold that is one."""
    sides = (pairs.npu, pairs.partner), (pairs.bench, pairs.back)
    votes: Counter[tuple[int, int]] = Counter()
    goes_forward = pairs.npu.forward & pairs.bench.forward[pairs.partner]
    inside, other_inside = (_in_free(side, partner) for side, partner in sides)
    wanted = goes_forward & (pairs.partner > 0) & inside & other_inside[pairs.partner]
    for i in np.flatnonzero(wanted).tolist():
        around, other_around = (
            _free_around(side, partner, node)
            for (side, partner), node in zip(sides, (i, int(pairs.partner[i])), strict=True)
        )
        votes.update(product(around, other_around))
    if not votes:
        return
    held, other_held = (
        np.r_[0, np.cumsum((partner >= 0) & side.forward)] for side, partner in sides
    )
    ends, other_ends = (side.outline.tree.subtree_end for side, _ in sides)
    last = _last_pair(pairs.npu, pairs.partner), _last_pair(pairs.bench, pairs.back)
    shares = []
    for (i, j), times in votes.items():
        own, other = held[ends[i] + 1] - held[i], other_held[other_ends[j] + 1] - other_held[j]
        # They put out the same if each holds the last pair of the other.
        at_end = i < last[1][j] <= ends[i], j < last[0][i] <= other_ends[j]
        shares.append((times / int(own + other - times) + _AT_END * sum(at_end), i, j))
    for share, i, j in sorted(shares, key=lambda one: -one[0]):
        _offer(pairs, i, j, 2 * _OFFERED * share)


def _last_pair(side: Traits, partner: Int) -> Int:
    """Of each node the partner of the last that it holds, or that is before it."""
    matched = np.flatnonzero((partner >= 0) & side.forward)
    place = np.searchsorted(matched, side.outline.tree.subtree_end, "right") - 1
    return np.asarray(partner[matched[place]])


def _in_free(side: Traits, partner: Int) -> Bool:
    """Which nodes stand in a module without a partner."""
    host = side.outline.host
    return np.asarray((host > 0) & (partner[host] < 0))


def _free_around(side: Traits, partner: Int, node: int) -> list[int]:
    """The modules without a partner around a node, up to the first that has one."""
    found = []
    host = int(side.outline.host[node])
    while host > 0 and partner[host] < 0:
        found.append(host)
        host = int(side.outline.host[host])
    return found


def _by_forward(pairs: Pairs) -> None:
    """Free backward calls: those of the candidates of their forward calls, as likely."""
    if not (pairs.open[0] or pairs.open[1]):
        return
    forward = forward_of(pairs.npu), forward_of(pairs.bench)
    backward = [
        {int(of[node]): node for node in np.flatnonzero(of >= 0).tolist()} for of in forward
    ]
    for side, partner in enumerate((pairs.partner, pairs.back)):
        for of, choices in list(pairs.open[side].items()):
            node = backward[side].get(of, -1)
            if node >= 0 and partner[node] < 0:
                pairs.open[side][node] = [
                    (backward[1 - side][other], weight)
                    for other, weight in choices
                    if other in backward[1 - side]
                ]
