"""Pairing what stands in other modules on the other side.

One author puts the norm into the module of the attention, another one beside it. What found no
partner among what the partner of its host holds is looked for around that host.
"""

from __future__ import annotations

from itertools import chain

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.align.pairing.anchors import by_micro_step, leaves
from msprobe_builder.align.pairing.inside import pair_gap
from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.align.pairing.repeated_calls import order_tells
from msprobe_builder.base.sequence import longest_increasing
from msprobe_builder.dump.names import Kind

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_LARGEST = 250_000  # pairs of one gap that are weighed; larger gaps say too little of a place


def pair_across(pairs: Pairs) -> None:
    """Match leaves between the leaves that are matched, whatever modules stand around them.

    The host of one must be matched with a module that holds the other.
    """
    sides = pairs.npu, pairs.bench
    # Then the calls alone: a module with weights stands before what it holds, and so apart from it.
    steps = [tuple(leaves(side) for side in sides), tuple(_calls(side) for side in sides)]
    for a, b in chain(*(zip(*both, strict=False) for both in steps)):
        place = np.full(len(pairs.bench), -1, dtype=np.int64)
        place[b] = np.arange(len(b))
        at = np.where(pairs.partner[a] >= 0, place[pairs.partner[a]], -1)
        x = np.flatnonzero(at >= 0)
        x = x[longest_increasing(at[x])]
        y = at[x]
        bounds = np.stack([np.r_[-1, x], np.r_[x, len(a)], np.r_[-1, y], np.r_[y, len(b)]])
        gaps = bounds[:, (bounds[1] - bounds[0] > 1) & (bounds[3] - bounds[2] > 1)]
        in_order = not gaps.size or order_tells(pairs, a, b)
        for begin, end, other_begin, other_end in gaps.T.tolist():
            i, j = a[begin + 1 : end], b[other_begin + 1 : other_end]
            i, j = i[pairs.partner[i] < 0], j[pairs.back[j] < 0]
            if len(i) and len(j) and len(i) * len(j) <= _LARGEST:
                depth, other_depth = np.zeros_like(i), np.zeros_like(j)
                possible = around(pairs, i, j)
                pair_gap(pairs, i, j, depth, other_depth, possible, in_order=in_order)


def _calls(side: Traits) -> list[Int]:
    """By micro-step: what holds nothing, in order."""
    nodes = np.arange(len(side))
    return by_micro_step(side, nodes[side.forward & (side.outline.tree.subtree_end == nodes)])


def around(pairs: Pairs, a: Int, b: Int, *, both: bool = False) -> Bool:
    """Which pairs have a host of one, or hosts of ``both``, whose partner holds the other."""
    host = _matched_host(pairs.npu, pairs.partner, a)
    other_host = _matched_host(pairs.bench, pairs.back, b)
    partner, back = pairs.partner[host][:, None], pairs.back[other_host]
    end, other_end = pairs.npu.outline.tree.subtree_end, pairs.bench.outline.tree.subtree_end
    held = (partner < b) & (b <= other_end[partner])
    other_held = (back < a[:, None]) & (a[:, None] <= end[back])
    return np.asarray(held & other_held if both else held | other_held)


def _matched_host(side: Traits, partner: Int, nodes: Int) -> Int:
    """The nearest module above each node that has a partner, the root if there is none."""
    tree, kind = side.outline.tree, side.outline.kind
    above = np.maximum(tree.parent[nodes], 0)
    while True:
        higher = (above > 0) & ((partner[above] < 0) | (kind[above] != Kind.MODULE))
        if not higher.any():
            return np.asarray(above)
        above = np.where(higher, np.maximum(tree.parent[above], 0), above)
