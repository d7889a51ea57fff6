"""Modules left alone that are given the same and put out the same, as no others do.

A block that adds what it was given stands around one that does not: once it is seen which of the
two was not meant, the other one is free for its own counterpart.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.align.evidence.trust import levels
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
