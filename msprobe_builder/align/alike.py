"""Equal calls in a row: where their order tells them apart, and where nothing does.

Query, key and value are transposed one after the other, by one author in this order and by another
one in another. Two runs of one code make them in one order, however their modules are called.
Statistics tell such calls apart; without any, order counts where the two sides do nearly the same.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.pairs import Pairs
from msprobe_builder.align.traits import Traits
from msprobe_builder.match.hashing import mixed, same_ids
from msprobe_builder.match.sequence import align

Int = NDArray[np.int64]
Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

_SAME_CODE = 0.8  # least share of equal calls, of the longer list
_LIKELY = 0.7  # by which an exchange may be worse and still be likely


def order_tells(pairs: Pairs, a: Int, b: Int) -> bool:
    """Whether equal calls of two lists may be told apart by their order."""
    trust = pairs.known.trust
    if trust.equal or trust.near:
        return True
    mine, theirs = _keys(pairs.npu, pairs, a), _keys(pairs.bench, pairs, b)
    common, _ = align(*same_ids(mine, theirs))
    return len(common) >= _SAME_CODE * max(len(a), len(b))


def _keys(side: Traits, pairs: Pairs, nodes: Int) -> NDArray[np.uint64]:
    trust = pairs.known.trust
    tensors = (side.inputs, side.outputs, side.parameters)
    extents = (trust.extent(one)[nodes].astype(np.int64) for one in tensors)
    return mixed(side.operator[nodes], *extents)


def exchangeable(score: Float, rows: Int, columns: Int) -> Bool:
    """Which of the pairs could as well be made with a neighbour: nothing stands between them.

    ``rows`` ascend. A neighbour is the next pair, which may trade partners, or a node without a
    partner before the next pair.
    """
    result = np.zeros(len(rows), dtype=bool)
    for one in range(len(rows) - 1):
        i, j = rows[one], columns[one]
        k, m = rows[one + 1], columns[one + 1]
        if score[i, m] + score[k, j] > score[i, j] + score[k, m] - 2 * _LIKELY:
            result[one : one + 2] |= not _stands_between(columns, j, m)
    for own, other, table in ((rows, columns, score), (columns, rows, score.T)):
        order = np.argsort(own)
        own, other = own[order], other[order]
        bounds = np.r_[-1, own, len(table)]
        for place, (i, j) in enumerate(zip(own.tolist(), other.tolist(), strict=True)):
            near = np.r_[bounds[place] + 1 : i, i + 1 : bounds[place + 2]]
            result[order[place]] |= bool((table[near, j] > table[i, j] - _LIKELY).any())
    return result


def _stands_between(columns: Int, j: int, m: int) -> bool:
    low, high = min(j, m), max(j, m)
    return bool(((columns > low) & (columns < high)).any())
