"""The share of each pair in all alignments that keep the order, and what neighbours add to it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from math import exp

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from msprobe_builder.align.pairing.order_and_flow import ALONE, likely_pairs, told_by_neighbours
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


def chain(size: int) -> Int:
    """Calls that each take in what the one before put out."""
    return np.stack([np.arange(size) - 1, np.full(size, -1)])


def told(likely: Float, makers: tuple[Int, Int], *, is_sum: bool = False) -> Float:
    return told_by_neighbours(likely, makers, np.full(len(likely), is_sum, dtype=bool))


def test_pairs_speak_for_what_they_make_and_take_and_against_others() -> None:
    likely = np.zeros((3, 3))
    likely[1, 1] = 1.0
    found = told(likely, (chain(3), chain(3)))
    assert found[0, 0] > 1  # its taker is a pair
    assert found[2, 2] > 1  # its maker is a pair
    assert found[1, 1] == 0  # nothing is known of who is beside them
    assert max(found[2, 1], found[1, 2]) < -1  # the maker of one belongs to another
    assert not told(np.zeros((3, 3)), (chain(3), chain(3))).any()


def test_the_terms_of_a_sum_have_no_order_and_the_factors_of_a_product_have() -> None:
    straight = np.array([[-1, -1, 0], [-1, -1, 1]])
    turned = straight[::-1]
    likely = np.diag([1.0, 1.0, 0.0])
    assert told(likely, (straight, straight))[2, 2] > 3
    assert told(likely, (straight, turned))[2, 2] < -3
    assert told(likely, (straight, turned), is_sum=True)[2, 2] > 3
    assert told(likely, (straight, straight), is_sum=True)[2, 2] > 3


@settings(max_examples=costly_examples(30))
@given(SCORES, st.integers(0, 2**32 - 1))
def test_neighbours_say_the_same_of_exchanged_sides(score: Float, seed: int) -> None:
    likely = likely_pairs(score)
    generator = np.random.default_rng(seed)
    makers = tuple(generator.integers(-1, size, (2, size)) for size in likely.shape)
    for is_sum in (False, True):
        here = told(likely, (makers[0], makers[1]), is_sum=is_sum)
        there = told(likely.T, (makers[1], makers[0]), is_sum=is_sum)
        assert np.allclose(here, there.T)
