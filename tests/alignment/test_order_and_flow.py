"""The share of each pair in all alignments that keep the order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from math import exp

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from msprobe_builder.align.pairing.order_and_flow import ALONE, likely_pairs
from tests.cases import costly_examples

Float = NDArray[np.float64]
Int = NDArray[np.int64]

SCORES = st.tuples(st.integers(1, 4), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.floats(-8, 8))
)


def alignments(rows: int, columns: int) -> Iterator[list[tuple[int, int]]]:
    """All sets of pairs that keep the order, one way to write each."""
    if not rows or not columns:
        yield []
        return
    for shorter in alignments(rows - 1, columns):
        yield shorter
    for column in range(columns):
        for shorter in alignments(rows - 1, column):
            yield [*shorter, (rows - 1, column)]


def paths(pairs: list[tuple[int, int]], rows: int, columns: int) -> int:
    """In how many orders what stands alone between two pairs can be read."""
    result = 1
    bounds = [(-1, -1), *pairs, (rows, columns)]
    for (row, column), (further, other) in itertools.pairwise(bounds):
        alone, beside = further - row - 1, other - column - 1
        for number in range(1, alone + 1):
            result = result * (beside + number) // number
    return result


@settings(max_examples=costly_examples(40))
@given(SCORES)
def test_a_pair_is_as_likely_as_its_share_of_all_alignments(score: Float) -> None:
    n, m = score.shape
    share, total = np.zeros((n, m)), 0.0
    for pairs in alignments(n, m):
        weight = sum(score[pair] for pair in pairs) + ALONE * (n + m - 2 * len(pairs))
        times = paths(pairs, n, m) * exp(weight)
        total += times
        for pair in pairs:
            share[pair] += times
    assert np.allclose(likely_pairs(score), share / total, rtol=1e-6, atol=1e-12)


@settings(max_examples=costly_examples(30))
@given(SCORES)
def test_the_sides_may_be_exchanged_or_read_from_the_end(score: Float) -> None:
    found = likely_pairs(score)
    assert np.allclose(found, likely_pairs(score.T).T)
    assert np.allclose(found, likely_pairs(score[::-1, ::-1])[::-1, ::-1])
    assert (found.sum(axis=0) <= 1 + 1e-9).all()
    assert (found.sum(axis=1) <= 1 + 1e-9).all()
