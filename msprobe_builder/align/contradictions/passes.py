"""Passes of one network on several inputs, which one author makes in another order than another.

A discriminator sees what is real and what is made, a siamese network two views. Passes are alike in
all but what they work on; where that is not recorded their order tells them apart, as that of steps
of a loop. But where they stand in another order to other modules it says nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.align.pairing.repeated_calls import LOOP
from msprobe_builder.dump.names import Kind

Int = NDArray[np.int64]


def passes_in_another_order(pairs: Pairs) -> Int:
    """Automatic pairs inside passes that cross modules outside of them; npu nodes.

    Only where neither values nor the flow of tensors tell what a pass works on, and not in loops.
    """
    npu, trust = pairs.npu, pairs.known.trust
    nothing = np.empty(0, dtype=np.int64)
    if trust.equal or trust.near or (npu.below[0].any() and pairs.known.has_flow):
        return nothing
    weighted = np.flatnonzero(npu.forward & (npu.parameters.count > 0) & (pairs.partner > 0))
    crossed: set[int] = set()
    passes = _passes(npu, pairs.known.stem)
    for node in passes.tolist():
        begin, end = np.searchsorted(weighted, [node, int(npu.outline.tree.subtree_end[node]) + 1])
        its = pairs.partner[weighted[begin:end]]
        if not len(its):
            continue
        before, behind = pairs.partner[weighted[:begin]], pairs.partner[weighted[end:]]
        if (before > its.max()).any() or (behind < its.min()).any():
            crossed.add(int(pairs.known.stem[node]))
    found = [nothing]
    for node in passes[np.isin(pairs.known.stem[passes], list(crossed))].tolist():
        inside = np.arange(node, int(npu.outline.tree.subtree_end[node]) + 1)
        found.append(inside[(pairs.partner[inside] > 0) & (pairs.evidence[inside] > 0)])
    return np.concatenate(found)


def _passes(side: Traits, stem: Int) -> Int:
    """Calls of modules with weights that what holds them calls more than once, but no loops."""
    modules = np.flatnonzero(
        side.forward & (side.outline.kind == Kind.MODULE) & (side.parameters_below[1] > 0)
    )
    count = np.bincount(stem[modules], minlength=int(stem.max(initial=0)) + 1)
    own, hosts = count[stem[modules]], side.outline.host[modules]
    around = np.where(hosts > 0, count[stem[hosts]], 1)
    return np.asarray(modules[(own > around) & (own < LOOP)])
