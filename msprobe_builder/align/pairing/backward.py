"""Pairing what follows from the forward calls: recomputation, backward calls and gradients."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.align.pairing.inside import pair_inside
from msprobe_builder.align.pairing.links import Gradients, forward_of, gradients_of, origins
from msprobe_builder.align.pairing.lists import Lists
from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.base.codes import Evidence
from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.graph.calls import count_gradients_otherwise

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_BY_NAME = 5.0  # weight of what belongs to a pair of equal names


def pair_backward(pairs: Pairs) -> None:
    """Match what belongs to matched forward calls, and what else is called in the backward pass.

    The backward call of a call is known by its name, and so is the module that a recomputed one
    repeats. What is recomputed on one side alone stays alone; its backward calls belong to those
    of the calls that it repeats.
    """
    sides = pairs.npu, pairs.bench
    forward = [forward_of(side) for side in sides]
    origin = [origins(side, of) for side, of in zip(sides, forward, strict=True)]
    work = [_through(of, first) for of, first in zip(forward, origin, strict=True)]
    # Where both sides recompute a call its own partner tells.
    ways = forward, [work[0], forward[1]], [forward[0], work[1]]
    is_module = [side.outline.kind == Kind.MODULE for side in sides]
    backward = [side.direction == Direction.BACKWARD for side in sides]
    again = [(side.direction == Direction.FORWARD) & ~side.forward for side in sides]
    _pair_by_work(pairs, origin, _both(again, is_module), Evidence.RECOMPUTED)
    for known in ways:
        _pair_by_work(pairs, known, _both(backward, is_module), Evidence.BACKWARD)
    _pair_gradients(pairs)
    _pair_inside_of_matched(pairs, again)
    for known in ways:
        _pair_by_work(pairs, known, backward, Evidence.BACKWARD)
    # A call whose forward call was not recorded has its place alone to go by.
    _pair_inside_of_matched(pairs, _both(backward, [of < 0 for of in forward]))


def _both(left: list[Bool], right: list[Bool]) -> list[Bool]:
    return [one & other for one, other in zip(left, right, strict=True)]


def _through(forward: Int, origin: Int) -> Int:
    """The call whose work the forward call of each node repeats, -1 where unknown."""
    return np.where(forward >= 0, origin[forward], -1)


def _pair_by_work(
    pairs: Pairs, work: list[Int], takes_part: list[Bool], evidence: Evidence
) -> None:
    """Match nodes whose ``work`` is a pair, as sure as that; several of one call in their order."""
    nodes, keys = [], []
    wanted = np.where(work[0] >= 0, pairs.partner[work[0]], -1), work[1]
    for of, which in zip(wanted, takes_part, strict=True):
        found = np.flatnonzero(which & (of >= 0))
        found = found[np.argsort(of[found], kind="stable")]
        turn = np.arange(len(found)) - np.searchsorted(of[found], of[found])
        nodes.append(found)
        keys.append(of[found] * len(pairs.npu) + turn)
    _, a, b = np.intersect1d(keys[0], keys[1], assume_unique=True, return_indices=True)
    i, j = nodes[0][a], nodes[1][b]
    new = pairs.partner[i] != j
    i, j = i[new], j[new]
    _make_room(pairs, i, j)
    first = work[0][i]
    weight = np.where(pairs.evidence[first] > 0, pairs.weight[first], _BY_NAME)
    pairs.add_all(i, j, evidence, weight)


def _pair_inside_of_matched(pairs: Pairs, calls: list[Bool]) -> None:
    """Match calls inside matched modules of the backward pass by all their evidence."""
    lists, dissolved = [], []
    for side, nodes, partner in (
        (pairs.npu, calls[0], pairs.partner),
        (pairs.bench, calls[1], pairs.back),
    ):
        is_module = (side.outline.kind == Kind.MODULE) & ~side.forward
        takes_part = is_module | nodes | ((partner >= 0) & ~side.forward)
        takes_part[0] = False
        lists.append(Lists.of(side, takes_part))
        dissolved.append(is_module & (partner < 0))
    pair_inside(pairs, lists[0], lists[1], dissolved[0], dissolved[1])


def _make_room(pairs: Pairs, i: Int, j: Int) -> None:
    """Drop the pairs of equal names that nodes are in; those that were asked for stay."""
    nodes = np.unique(np.r_[i, pairs.back[j]])
    is_paired = (nodes >= 0) & (pairs.partner[nodes] >= 0)
    for node in nodes[is_paired & ~pairs.asked[nodes] & (pairs.evidence[nodes] == 0)].tolist():
        pairs.drop(node)


def _pair_gradients(pairs: Pairs) -> None:
    own, there = gradients_of(pairs.npu), gradients_of(pairs.bench)
    if not own or not there:
        return
    stems: dict[str, dict[str, int]] = {}
    modules = np.flatnonzero((pairs.partner > 0) & (pairs.npu.outline.kind == Kind.MODULE))
    names, other_names = pairs.npu.outline.tree.parsed, pairs.bench.outline.tree.parsed
    for node in modules.tolist():
        votes = stems.setdefault(names[node].stem, {})
        other = other_names[pairs.partner[node]].stem
        votes[other] = votes.get(other, 0) + 1
    calls, others_calls = pairs.npu.outline.tree.calls, pairs.bench.outline.tree.calls
    if count_gradients_otherwise(calls, others_calls):  # alike is what the first pass brings
        later = [one for one in own if _pass_of(pairs.npu, one)]
        for node in (node for node, _, _ in later if pairs.partner[node] >= 0):
            if not pairs.asked[node]:
                pairs.drop(node)
        own = [(one[0], one[1], 0) for one in own if one not in later]
        there = [(one[0], one[1], 0) for one in there if not _pass_of(pairs.bench, one)]
    others = {(stem, call): node for node, stem, call in there}
    for node, stem, call in own:
        if stem in stems:
            best = max(stems[stem], key=stems[stem].__getitem__)
            other = others.get((best, call), -1)
            if other >= 0 and pairs.partner[node] != other:
                _make_room(pairs, np.array([node]), np.array([other]))
                pairs.add(node, other, Evidence.GRADIENT, 5.0)


def _pass_of(side: Traits, gradients: Gradients) -> int:
    """The number of the backward call that they came with; without a number it is the last."""
    node, _, call = gradients
    tree = side.outline.tree
    return tree.parsed[int(tree.parent[node])].call if call is None else call
