"""Automatic pairs of modules that cannot be right, whatever speaks for them.

A wrong pair is worse than a grey one. Sizes of weights count only where those of most pairs agree:
with other sizes, or shards on one side, they say nothing.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.contradictions.passes import passes_in_another_order
from msprobe_builder.align.evidence.scores import MORE, levels
from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.dump.names import Kind

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_COMPARABLE = 0.8  # least share of pairs whose weights are as many
_MAIN = 0.75  # least share of a module's calls that go to one module


def take_back(pairs: Pairs) -> None:
    """Leave grey what contradicts itself: other sizes of weights, one module against several."""
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
    nodes = nodes[pairs.partner[nodes] > 0]
    sized = sized[pairs.partner[sized] > 0]
    torn = _torn(pairs, nodes)
    for node in [*_equal_calls_around(pairs, torn).tolist(), *sized.tolist(), *torn.tolist()]:
        _drop_with_content(pairs, node)


def _of_other_size(pairs: Pairs, nodes: Int) -> tuple[Int, Int]:
    """Pairs of modules of other sizes though the right size is there; those without any weight.

    A padded vocabulary or an adapter has no counterpart of its own size, and stays. What holds no
    weight is no counterpart of what holds modules with weights; these are returned apart, with
    those that put out far more than the other.
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
    with np.errstate(divide="ignore", invalid="ignore"):
        much = np.maximum(a, b) >= MORE * np.minimum(a, b)
    contradicted = (
        some & (a != b) & ((simple & there[0] & there[1]) | (much & (there[0] | there[1])))
    )
    hollow = ((a == 0) & (b > other_own)) | ((b == 0) & (a > own))
    return nodes[contradicted], nodes[hollow | _puts_out_far_more(pairs, nodes)]


def _puts_out_far_more(pairs: Pairs, nodes: Int) -> Bool:
    """Where one of two modules puts out far more than the other, though most calls agree."""
    if not pairs.known.trust.same_sizes:
        return np.zeros(len(nodes), dtype=bool)
    debug, reference, other = pairs.npu.outputs, pairs.bench.outputs, pairs.partner[nodes]
    a, b = debug.numel[nodes], reference.numel[other]
    much = np.maximum(a, b) >= MORE * np.minimum(a, b)
    return np.asarray(
        (debug.count[nodes] == reference.count[other]) & (np.minimum(a, b) > 0) & much
    )


def _torn(pairs: Pairs, nodes: Int) -> Int:
    """Pairs by which the calls of one module go to several, and theirs come from several.

    Loops in another order: equal calls stand at equal places, and belong to other layers. So it is
    where the calls of one go to several of which each is called as often as it. One
    module against several, such as a shared one against copies of it, is no contradiction, nor
    are modules without weights, of which there may be one for all.
    """
    has_weights = pairs.npu.parameters_below[1, nodes] > 0
    nodes = nodes[has_weights]
    known = pairs.known
    stem, other = known.stem[nodes], known.other_stem[pairs.partner[nodes]]
    links = Counter(zip(stem.tolist(), other.tolist(), strict=True))
    calls, other_calls = Counter(stem.tolist()), Counter(other.tolist())
    total, other_total = _calls_of(pairs.npu, known.stem), _calls_of(pairs.bench, known.other_stem)
    torn = [
        links[one, two] < min(total[one], other_total[two]) * _MAIN
        and (
            (links[one, two] < calls[one] and links[one, two] < other_calls[two])
            or (
                links[one, two] < max(calls[one], other_calls[two])
                and total[one] == other_total[two]
            )
        )
        for one, two in zip(stem.tolist(), other.tolist(), strict=True)
    ]
    return np.asarray(nodes[np.array(torn, dtype=bool)])


def _of_other_number(pairs: Pairs, nodes: Int) -> Int:
    """Pairs of another call of one module than of the other, which is called as often.

    Where values agree they tell, or what they come from; elsewhere the first call is the first.
    """
    if pairs.known.trust.equal or pairs.known.trust.near:
        return nodes[:0]
    place, count = _places(pairs.npu, pairs.known.stem)
    its, other_count = _places(pairs.bench, pairs.known.other_stem)
    other = pairs.partner[nodes]
    moved = (count[nodes] == other_count[other]) & (place[nodes] != its[other])
    return np.asarray(nodes[moved & ~_come_from_alike(pairs, nodes, other)])


def _come_from_alike(pairs: Pairs, nodes: Int, other: Int) -> Bool:
    """Whether what two nodes come from is known, and alike as far as it is looked through."""
    known = pairs.known
    half = len(known.around) // 2
    if not half:
        return np.zeros(len(nodes), dtype=bool)
    debug, reference = known.around[:half, nodes], known.other_around[:half, other]
    return np.asarray(((debug == reference) & (debug != 0)).all(axis=0))


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


def _calls_of(side: Traits, stem: Int) -> Counter[int]:
    """How often each module is called, with a partner or without."""
    return Counter(stem[side.forward & (side.outline.kind == Kind.MODULE)].tolist())


def _equal_calls_around(pairs: Pairs, torn: Int) -> Int:
    """Calls that a host repeats between modules in another order: their order says nothing."""
    host, operator = pairs.npu.outline.host, pairs.npu.operator
    around = np.isin(host, host[torn]) & (operator >= 0) & pairs.npu.forward
    calls = np.flatnonzero(around)
    keys = list(zip(host[calls].tolist(), operator[calls].tolist(), strict=True))
    count = Counter(keys)
    return np.asarray(calls[np.array([count[key] > 1 for key in keys], dtype=bool)])


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
