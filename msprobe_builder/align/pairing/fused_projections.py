"""Fused weights in front of the last module of a host, where modules alone are known.

One author projects to query, key and value at once, another one three times; what comes last makes
the result of the host for both. Without calls and values nothing else tells it from the query,
which is as large.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.base.codes import Evidence

Int = NDArray[np.int64]

_ROLES = frozenset({"query", "key", "value"})
_WEIGHT = 3.0


def pair_last(pairs: Pairs, a: Int, b: Int) -> list[int]:
    """Match the last modules with weights of two lists where fused weights stand in front of them.

    One side has two modules with weights, the other one several, and the first of the two is as
    large as all of the others but the last together. Returns the npu node, if any.
    """
    if pairs.known.one_code or pairs.npu.below[0].any():
        return []
    debug, reference = _with_matrices(pairs.npu, a), _with_matrices(pairs.bench, b)
    few, many = sorted((debug, reference), key=len)
    if len(few) != 2 or len(many) < 3:
        return []
    side, other = (pairs.npu, pairs.bench) if few is debug else (pairs.bench, pairs.npu)
    sizes, others = side.parameters.numel[few], other.parameters.numel[many]
    if sizes[0] != others[:-1].sum() or sizes[1] != others[-1]:
        return []
    node, partner = int(debug[-1]), int(reference[-1])
    known = pairs.known
    words = known.words.attribute(node) | known.other_words.attribute(partner)
    if words & _ROLES or not pairs.add(node, partner, Evidence.INSIDE, _WEIGHT):
        return []  # one author projects to key and value first, and to the query then
    return [node]


def _with_matrices(side: Traits, nodes: Int) -> Int:
    """The modules of a list that have weights which are no vectors."""
    has = (side.operator[nodes] < 0) & (side.parameters.numel[nodes] > 0)
    return nodes[has & ~side.parameters.are_vectors(nodes)]
