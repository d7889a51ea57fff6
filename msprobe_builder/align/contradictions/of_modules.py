"""Automatic pairs of modules that cannot be right, whatever speaks for them.

A wrong pair is worse than a grey one. Sizes of weights count only where those of most pairs agree:
with other sizes, or shards on one side, they say nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.contradictions.passes import passes_in_another_order
from msprobe_builder.align.evidence.scores import MORE
from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.align.evidence.trust import levels
from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.dump.names import Kind

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_COMPARABLE = 0.8  # least share of pairs whose weights are as many


def take_back(pairs: Pairs) -> None:
    """Leave grey what contradicts itself: other sizes of weights, another call of a module."""
    nodes = np.flatnonzero(
        (pairs.partner > 0) & pairs.npu.forward & (pairs.npu.outline.kind == Kind.MODULE)
    )
    if not len(nodes):
        return
    sized, hollow = _of_other_size(pairs, nodes)
    for node in hollow.tolist():
        pairs.take_back(node)
    for node in _of_other_number(pairs, nodes).tolist():
        _drop_with_content(pairs, node, for_good=False)
    for node in passes_in_another_order(pairs).tolist():
        pairs.take_back(node)
    for node in sized[pairs.partner[sized] > 0].tolist():
        _drop_with_content(pairs, node)


def _of_other_size(pairs: Pairs, nodes: Int) -> tuple[Int, Int]:
    """Pairs of modules of other sizes though the right size is there; those without any weight.

    A padded vocabulary or an adapter has no counterpart of its own size, and stays. What holds no
    weight is no counterpart of what holds modules with weights; these are returned apart.
    """
    other = pairs.partner[nodes]
    sizes, other_sizes = pairs.npu.parameters_below[1], pairs.bench.parameters_below[1]
    a, b = sizes[nodes], other_sizes[other]
    some = (a > 0) & (b > 0)
    nothing = nodes[:0]
    own, other_own = pairs.npu.parameters.numel[nodes], pairs.bench.parameters.numel[other]
    simple = some & (own == a) & (other_own == b)
    if (a[simple] == b[simple]).sum() < _COMPARABLE * max(int(simple.sum()), 1):
        return nothing, nothing
    known, other_known = (
        np.unique(below[side.forward & (side.outline.kind == Kind.MODULE)])
        for below, side in ((sizes, pairs.npu), (other_sizes, pairs.bench))
    )
    there = np.isin(a, other_known), np.isin(b, known)
    much = np.maximum(a, b) >= MORE * np.minimum(a, b)
    contradicted = (
        some & (a != b) & ((simple & there[0] & there[1]) | (much & (there[0] | there[1])))
    )
    hollow = ((a == 0) & (b > other_own)) | ((b == 0) & (a > own))
    return nodes[contradicted], nodes[hollow]


def _of_other_number(pairs: Pairs, nodes: Int) -> Int:
    """Pairs of another call of one module than of the other, which is called as often.

    Where values agree they tell; elsewhere the first call is the first.
    """
    if pairs.known.trust.equal or pairs.known.trust.near:
        return nodes[:0]
    place, count = _places(pairs.npu, pairs.known.stem)
    its, other_count = _places(pairs.bench, pairs.known.other_stem)
    other = pairs.partner[nodes]
    moved = (count[nodes] == other_count[other]) & (place[nodes] != its[other])
    return np.asarray(nodes[moved])


def _places(side: Traits, stem: Int) -> tuple[Int, Int]:
    """Of each module its place among the calls of it in its micro-step, and how many there are."""
    place, count = np.zeros(len(side), dtype=np.int64), np.zeros(len(side), dtype=np.int64)
    modules = np.flatnonzero(side.forward & (side.outline.kind == Kind.MODULE))
    keys = np.stack([stem[modules], side.outline.tree.micro_step[modules]])
    _, group, counts = np.unique(keys, axis=1, return_inverse=True, return_counts=True)
    group = group.reshape(-1)
    order = np.argsort(group, kind="stable")
    first = np.r_[0, np.cumsum(counts)[:-1]]
    place[modules[order]] = np.arange(len(modules)) - first[group[order]]
    count[modules] = counts[group]
    return place, count


def _drop_with_content(pairs: Pairs, node: int, *, for_good: bool = True) -> None:
    other = int(pairs.partner[node])
    if not pairs.take_back(node, for_good=for_good):
        return
    end = int(pairs.npu.outline.tree.subtree_end[node])
    other_end = int(pairs.bench.outline.tree.subtree_end[other])
    inside = np.arange(node + 1, end + 1)
    partner = pairs.partner[inside]
    held = inside[(partner > other) & (partner <= other_end)]
    for one in held[~_known_by_themselves(pairs, held)].tolist():
        pairs.take_back(one, for_good=for_good)


def _known_by_themselves(pairs: Pairs, nodes: Int) -> Bool:
    """Pairs that equal weights, or equal statistics of what goes in and out, show alone."""
    npu, bench, known, other = pairs.npu, pairs.bench, pairs.known, pairs.partner[nodes]
    twin = known.twin[nodes]
    shown = (twin >= 0) & (twin == known.other_twin[other])
    if not known.trust.equal:
        return np.asarray(shown)
    same = levels(npu.inputs, bench.inputs, nodes, other) == 2
    same &= levels(npu.outputs, bench.outputs, nodes, other) == 2
    return np.asarray(shown | same)
