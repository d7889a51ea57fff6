"""Joining sequences of calls, and what is kept of the order."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from msprobe_builder.merge.join.sequence import common_subsequence, supersequence

WORDS = st.text("abc", max_size=12)


def length(a: str, b: str) -> int:
    """Of a longest common subsequence, the plain way."""
    row = [0] * (len(b) + 1)
    for x in a:
        before = row[:]
        for j, y in enumerate(b):
            row[j + 1] = before[j] + 1 if x == y else max(before[j + 1], row[j])
    return row[-1]


@given(WORDS, WORDS)
def test_pairs_are_equal_ordered_and_as_many_as_can_be(a: str, b: str) -> None:
    pairs = common_subsequence(a, b)
    assert all(a[i] == b[j] for i, j in pairs)
    assert all(i < k and j < m for (i, j), (k, m) in pairwise(pairs))
    assert len(pairs) == length(a, b)


@given(WORDS, WORDS)
def test_a_supersequence_holds_both_in_order(a: str, b: str) -> None:
    joined = supersequence(a, b, a, b)
    assert "".join(one for one, _ in joined if one) == a
    assert "".join(other for _, other in joined if other) == b
    assert len(joined) == len(a) + len(b) - length(a, b)


def test_very_long_sequences_still_share_what_is_equal() -> None:
    a, b = list(range(5000)), [*range(5000, 10000), *range(5000)]
    pairs = common_subsequence(a, b)
    assert all(a[i] == b[j] for i, j in pairs)
    assert len(pairs) == 5000
