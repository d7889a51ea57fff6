"""A kernel of attention as the two products that it does.

The first multiplies query and key, the second what comes of it with the value. Another author
writes both out: then each half is known by what it takes in, and where.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.traits import Traits

Int = NDArray[np.int64]
Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

_IMPOSSIBLE, _HALF = -30.0, 1.0  # weight of a half against anything else, and against a product


class Halves(NamedTuple):
    """Calls of which those of attention stand twice: for the product of query and key, then for
    that with the value. ``of`` is the call of each, by its place.
    """

    of: Int
    is_first: Bool
    makers: Int


def split_attention(side: Traits, nodes: Int, makers: Int, third: Int, attention: Int) -> Halves:
    """Let each half of a kernel of attention take in what it multiplies."""
    twice = np.isin(side.operator[nodes], attention)
    of = np.repeat(np.arange(len(nodes)), 1 + twice)
    is_first = np.r_[of[:-1] == of[1:], False]
    last = np.r_[np.flatnonzero(~is_first), -1]  # of each call, and of none
    result = last[makers[:, of]]
    seconds = np.flatnonzero(np.r_[False, is_first[:-1]])
    result[0, seconds] = seconds - 1
    result[1, seconds] = last[third[of[seconds]]]
    return Halves(of, is_first, result)


def of_halves(local: Float, own: Halves, other: Halves, two: Bool, other_two: Bool) -> Float:
    """The evidence for halves: the first of one is that of another, or a product of two tensors."""
    result = local[np.ix_(own.of, other.of)]
    first, other_first = own.is_first[:, None], other.is_first
    lone, other_lone = _lone(own, two)[:, None], _lone(other, other_two)
    half = (first & other_lone) | (other_first & lone)
    result[(first != other_first) & ~half] = _IMPOSSIBLE
    result[half] = _HALF
    return result


def _lone(halves: Halves, two: Bool) -> Bool:
    """Products of two tensors that calls made, beside those of attention."""
    is_second = np.r_[False, halves.is_first[:-1]]
    return np.asarray(two[halves.of] & ~halves.is_first & ~is_second)
