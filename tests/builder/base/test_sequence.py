"""Aligning sequences, against the textbook's table of longest common subsequences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from msprobe_builder.base import sequence
from msprobe_builder.base.sequence import align, align_around, fill_gaps, longest_increasing
from msprobe_builder.match.matching import inverse

Int = NDArray[np.int64]
tokens = st.lists(st.integers(0, 4), max_size=14)


def column(values: list[int]) -> Int:
    return np.array(values, dtype=np.int64)


def longest(a: list[int], b: list[int]) -> int:
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, left in enumerate(a):
        for j, right in enumerate(b):
            table[i + 1][j + 1] = (
                table[i][j] + 1 if left == right else max(table[i][j + 1], table[i + 1][j])
            )
    return table[-1][-1]


def assert_alignment(a: Int, b: Int, x: Int, y: Int) -> None:
    assert len(x) == len(y)
    assert (a[x] == b[y]).all()
    assert (np.diff(x) > 0).all()
    assert (np.diff(y) > 0).all()


@given(tokens, tokens)
def test_an_alignment_is_a_longest_common_subsequence(a: list[int], b: list[int]) -> None:
    x, y = align(column(a), column(b))
    assert_alignment(column(a), column(b), x, y)
    assert len(x) == longest(a, b)


@given(tokens, tokens, st.integers(0, 30))
def test_sequences_too_long_for_the_table_are_aligned_without_crossing(
    a: list[int], b: list[int], bits: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequence, "_TABLE_BITS", bits)
        patch.setattr(sequence, "_WINDOW", 4)
        x, y = align(column(a), column(b))
    assert_alignment(column(a), column(b), x, y)


@settings(max_examples=8)
@given(st.integers(0, 40_000), st.integers(0, 7), st.integers(20_000, 40_000))
def test_in_a_long_sequence_one_extra_call_costs_nothing(
    place: int, token: int, length: int
) -> None:
    """Without rare tokens to hold on to, as in an optimizer that steps thousands of tensors."""
    b = np.arange(length) % 8
    a = np.insert(b, min(place, length), token)
    a = np.r_[token + 1, a, token + 2] % 8
    b = np.r_[token, b, token + 3] % 8
    x, y = align(a, b)
    assert_alignment(a, b, x, y)
    assert len(x) >= length - 1


@given(tokens, tokens, st.data())
def test_known_pairs_are_kept_where_they_cost_no_pair(
    a: list[int], b: list[int], data: st.DataObject
) -> None:
    equal = [(i, j) for i, left in enumerate(a) for j, right in enumerate(b) if left == right]
    chosen = data.draw(st.lists(st.sampled_from(equal), max_size=4)) if equal else []
    known = sorted({i: j for j, i in {j: i for i, j in chosen}.items()}.items())
    x0, y0 = column([i for i, _ in known]), column([j for _, j in known])
    x, y = align_around(column(a), column(b), x0, y0)
    assert_alignment(column(a), column(b), x, y)
    assert len(x) == longest(a, b)
    kept = longest_increasing(y0)
    within = fill_gaps(column(a), column(b), x0[kept], y0[kept])
    assert_alignment(column(a), column(b), *within)
    if len(within[0]) == len(x) and a != b:
        assert set(x0[kept].tolist()) <= set(x.tolist())


@given(st.permutations(range(9)))
def test_a_longest_increasing_subsequence(values: list[int]) -> None:
    chain = longest_increasing(column(values))
    assert (np.diff(column(values)[chain]) > 0).all()
    assert len(chain) == longest(values, sorted(values))


def test_partners_of_the_other_side_are_the_same_pairs() -> None:
    assert inverse(column([2, -1, 0]), 5).tolist() == [2, -1, 0, -1, -1]
    assert inverse(column([]), 2).tolist() == [-1, -1]
