"""What stands around a call in the flow of tensors of its own side.

With other weights, or behind a fault, no tensor is equal on both sides; yet within each side it is
known who put out what a call takes in. A query goes into another place of a product than a key, and
a shared expert is added where the others are weighed first: so they are told apart before they are
aligned, however many alike stand in a row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.flow import is_leaf
from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.align.pairing.edges import Edges
from msprobe_builder.match.hashing import mixed

Int = NDArray[np.int64]

_RADIUS = 4  # calls that are looked through in both directions


def surroundings(edges: Edges, side: Traits) -> Int:
    """For each direction and radius a number of each node, equal where what is around is alike.

    Shape (2 · radius, nodes): what a node comes from, then what takes in its results. 0 where
    nothing is known. Calls that hand a tensor on are seen through; terms that commute have no
    place. A module comes from what its first call does, and goes where its last one does.
    """
    flat = [(maker, node, place) for maker, taken in edges.taken.items() for node, place in taken]
    maker, taker, place = np.array(flat, dtype=np.int64).reshape(-1, 3).T
    own = mixed(side.operator, side.parameters.ranks).view(np.int64)
    result = np.zeros((2, _RADIUS, len(side)), dtype=np.int64)
    for direction, (node, other) in enumerate(((taker, maker), (maker, taker))):
        known = np.zeros(len(side), dtype=bool)
        known[node] = True
        seen = own
        for radius in range(_RADIUS):
            sums = np.zeros(len(side), dtype=np.uint64)
            np.add.at(sums, node, mixed(seen[other], place))  # wraps around
            seen = mixed(own, sums.view(np.int64)).view(np.int64)
            result[direction, radius] = np.where(known, seen | 1, 0)
    leaves = np.flatnonzero(is_leaf(side))
    if len(leaves):
        nodes = np.flatnonzero(side.outline.tree.subtree_end > np.arange(len(side)))
        place = np.searchsorted(leaves, nodes)
        first = leaves[np.minimum(place, len(leaves) - 1)]
        end = np.searchsorted(leaves, side.outline.tree.subtree_end[nodes], side="right")
        holds = end > place
        result[:, :, nodes] = 0
        result[0][:, nodes[holds]] = result[0][:, first[holds]]
        result[1][:, nodes[holds]] = result[1][:, leaves[end[holds] - 1]]
    return result.reshape(2 * _RADIUS, len(side))
