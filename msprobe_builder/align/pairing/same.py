"""Modules left alone that are given the same and put out the same, as no others do.

A block that adds what it was given stands around one that does not: once it is seen which of the
two was not meant, the other one is free for its own counterpart.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.scores import levels
from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.align.pairing.across import around
from msprobe_builder.align.pairing.pairs import Pairs, note
from msprobe_builder.base.codes import Evidence
from msprobe_builder.dump.names import Kind

Int = NDArray[np.int64]

_LARGEST = 250_000  # pairs of modules of one size that are compared
_WEIGHT = 5.0


def pair_same(pairs: Pairs, npu: Traits, bench: Traits) -> None:
    """Match modules without a partner whose first tensors in and out agree, and no others do."""
    if not pairs.known.trust.equal:
        return
    groups = _by_size(npu, pairs.partner), _by_size(bench, pairs.back)
    for size, a in groups[0].items():
        b = groups[1].get(size, ())
        if not len(b) or len(a) * len(b) > _LARGEST:
            continue
        i, j = np.array(a), np.array(b)
        grid = i[:, None], j[None, :]
        same = levels(npu.inputs, bench.inputs, *grid) == 2
        same &= levels(npu.outputs, bench.outputs, *grid) == 2
        same &= (same.sum(axis=1) == 1)[:, None] & (same.sum(axis=0) == 1)
        for row, column in zip(*np.nonzero(same), strict=True):
            one, other = i[row : row + 1], j[column : column + 1]
            if around(pairs, one, other).all() or _of_equal_weights(npu, bench, one, other):
                node, partner = int(one[0]), int(other[0])
                if pairs.add(node, partner, Evidence.INSIDE, _WEIGHT):
                    note(pairs, node, partner)


def pair_same_calls(pairs: Pairs) -> None:
    """Match calls that put out the very tensor, and give up pairs of theirs that put out others.

    One author calls the feed-forward network before the attention: both take in the same tensor, so
    that their order alone has paired the norms before them.
    """
    if not pairs.known.trust.equal:
        return
    npu, bench, back = pairs.npu, pairs.bench, pairs.back
    moving = pairs.known.moving  # these are known by what they move
    calls = np.flatnonzero(npu.forward & (npu.operator >= 0) & (npu.outputs.numel > 1))
    calls = calls[~np.isin(npu.operator[calls], moving)]
    calls = calls[(pairs.partner[calls] < 0) | ((pairs.evidence[calls] > 0) & ~pairs.asked[calls])]
    paired = calls[pairs.partner[calls] >= 0]
    differs = levels(npu.outputs, bench.outputs, paired, pairs.partner[paired]) < 2
    calls = np.union1d(paired[differs], calls[pairs.partner[calls] < 0])
    free = bench.forward & (bench.operator >= 0) & (bench.outputs.numel > 1)
    free &= (back < 0) | np.isin(back, paired[differs])
    groups = _alike_calls(npu, calls), _alike_calls(bench, np.flatnonzero(free))
    for key, a in groups[0].items():
        b = groups[1].get(key, np.empty(0, dtype=np.int64))
        if not len(b) or len(a) * len(b) > _LARGEST:
            continue
        same = levels(npu.outputs, bench.outputs, a[:, None], b[None, :]) == 2
        same &= (same.sum(axis=1) == 1)[:, None] & (same.sum(axis=0) == 1)
        for i, j in zip(*(one.tolist() for one in np.nonzero(same)), strict=True):
            node, other = int(a[i]), int(b[j])
            if not around(pairs, a[i : i + 1], b[j : j + 1], both=True).all():
                continue
            for one in {node, int(pairs.back[other])} - {-1}:
                if pairs.partner[one] >= 0:
                    pairs.drop(one)
            pairs.add(node, other, Evidence.INSIDE, _WEIGHT)


def _alike_calls(side: Traits, nodes: Int) -> dict[tuple[int, int, float], Int]:
    """Calls by micro-step, operator and the size of what they put out."""
    result: dict[tuple[int, int, float], list[int]] = defaultdict(list)
    columns = side.outline.tree.micro_step, side.operator, side.outputs.numel
    for node, *key in zip(nodes.tolist(), *(one[nodes].tolist() for one in columns), strict=True):
        result[key[0], key[1], key[2]].append(node)
    return {key: np.array(nodes, dtype=np.int64) for key, nodes in result.items()}


def give_way_to_hosts(pairs: Pairs, npu: Traits, bench: Traits) -> None:
    """Match the module around one whose partner puts out what the host does, not what it does.

    An adapter around a layer puts out what the layer does into which it was merged.
    """
    if not pairs.known.trust.equal:
        return
    chosen = (pairs.partner > 0) & (pairs.evidence > 0) & ~pairs.asked & npu.forward
    nodes = np.flatnonzero(chosen & (npu.outline.kind == Kind.MODULE))
    others = pairs.partner[nodes]
    differs = (npu.outputs.numel[nodes] > 1) & (
        levels(npu.outputs, bench.outputs, nodes, others) < 2
    )
    differs &= ~np.isnan(npu.outputs.values[0, nodes] + bench.outputs.values[0, others])
    nodes = nodes[differs]
    for i, j in zip(nodes.tolist(), pairs.partner[nodes].tolist(), strict=True):
        host, other_host = int(npu.outline.host[i]), int(bench.outline.host[j])
        for one, other in ((host, j), (i, other_host)):
            debug, reference = np.array([one]), np.array([other])
            free = min(one, other) > 0 and (one == i or pairs.partner[one] < 0)
            if (
                free
                and (other == j or pairs.back[other] < 0)
                and _agree(npu, bench, debug, reference)
            ):
                pairs.take_back(i)
                pairs.add(one, other, Evidence.INSIDE, _WEIGHT)
                break


def _of_equal_weights(npu: Traits, bench: Traits, a: Int, b: Int) -> bool:
    """Whether two modules have weights of their own that are equal, wherever they stand."""
    has = (npu.parameters.count[a] > 0) & (bench.parameters.count[b] > 0)
    return bool((has & (levels(npu.parameters, bench.parameters, a, b) == 2)).all())


def _agree(npu: Traits, bench: Traits, a: Int, b: Int) -> bool:
    same = levels(npu.inputs, bench.inputs, a, b) == 2
    return bool((same & (levels(npu.outputs, bench.outputs, a, b) == 2)).all())


def _by_size(side: Traits, partner: Int) -> dict[tuple[int, float, float], list[int]]:
    """Modules that go forward without a partner, by micro-step and what goes in and out."""
    free = side.forward & (side.outline.kind == Kind.MODULE) & (partner < 0)
    nodes = np.flatnonzero(free & ~np.isnan(side.inputs.values[0] + side.outputs.values[0]))
    result: dict[tuple[int, float, float], list[int]] = defaultdict(list)
    columns = (side.outline.tree.micro_step, side.inputs.numel, side.outputs.numel)
    for node, *size in zip(nodes.tolist(), *(one[nodes].tolist() for one in columns), strict=True):
        result[size[0], size[1], size[2]].append(node)
    return result
