"""Deciding which items of two sequences belong together, against trying every way."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe_builder.align.evidence.scores import IMPOSSIBLE, THRESHOLD
from msprobe_builder.align.evidence.words import words_of
from msprobe_builder.align.pairing.sequences import clear, decide

Pairs = list[tuple[int, int]]


def decided(score: list[list[float]]) -> tuple[Pairs, list[int]]:
    rows, columns, left = decide(THRESHOLD + np.array(score))
    return list(zip(rows.tolist(), columns.tolist(), strict=True)), left.tolist()


def best_ways(score: np.ndarray, margin: float) -> list[set[tuple[int, int]]]:
    """The pairs of every way without crossing whose sum is the best but for less than a margin."""
    rows, columns = score.shape
    ways: list[tuple[float, set[tuple[int, int]]]] = []
    for size in range(min(rows, columns) + 1):
        for some in combinations(range(rows), size):
            for others in combinations(range(columns), size):
                pairs = set(zip(some, others, strict=True))
                if all(score[pair] > 0 for pair in pairs):
                    ways.append((float(sum(score[pair] for pair in pairs)), pairs))
    best = max(total for total, _ in ways)
    return [pairs for total, pairs in ways if total > best - margin]


@given(
    st.integers(1, 4).flatmap(
        lambda rows: st.integers(1, 4).flatmap(
            lambda columns: st.lists(
                st.lists(
                    st.sampled_from([-2.0, 0.5, 1.0, 2.0]), min_size=columns, max_size=columns
                ),
                min_size=rows,
                max_size=rows,
            )
        )
    )
)
def test_what_is_paired_has_one_partner_in_all_good_ways(score: list[list[float]]) -> None:
    """Evidence below 5 is not clear enough to stand across others; sums of halves are exact."""
    assert THRESHOLD + 2.0 < 5.0
    ways = best_ways(np.array(score), 0.35)
    found, left = decided(score)
    used = set().union(*ways)
    alone = {
        (i, j)
        for i, j in used
        if sum(i == one for one, _ in used) == 1 and sum(j == one for _, one in used) == 1
    }
    assert set(found) == alone
    assert found == sorted(found)
    assert left == sorted({i for i, _ in used} - {i for i, _ in alone})


def test_clear_pairs_stand_across_others() -> None:
    assert decided([[0.5, 9.0], [9.0, 0.5]]) == ([(0, 1), (1, 0)], [])
    # Of weaker evidence only the better of two fits without crossing.
    assert decided([[0.0, 1.0], [2.0, 0.0]]) == ([(1, 0)], [])


@pytest.mark.parametrize(
    ("score", "pairs"),
    [
        ([[5.0]], [(0, 0)]),
        ([[4.9]], []),  # too little evidence
        ([[6.0, 5.3]], [(0, 0)]),
        ([[6.0, 5.4]], []),  # as good with another column
        ([[6.0], [5.3]], [(0, 0)]),
        ([[6.0], [5.4]], []),  # with another row
        ([[5.0, 9.0, 0.0], [9.0, 0.0, 1.0]], [(0, 1), (1, 0)]),
    ],
)
def test_clear_is_far_better_than_all_others(score: list[list[float]], pairs: Pairs) -> None:
    rows, columns = clear(np.array(score))
    assert list(zip(rows.tolist(), columns.tolist(), strict=True)) == pairs


def test_nothing_to_decide() -> None:
    assert [len(one) for one in clear(np.empty((0, 3)))] == [0, 0]
    assert [len(one) for one in decide(np.full((2, 2), float(IMPOSSIBLE)))] == [0, 0, 0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("self_attn", "SelfAttention"),
        ("input_layernorm", "InputNorm"),
        ("RMSNorm", "rms_norm"),
        ("q_proj", "QueryProjection"),
        ("wte", "embed"),
        ("h2", "layer_2"),
        ("ffn", "FeedForward"),
    ],
)
def test_short_and_long_names_have_the_same_words(one: str, other: str) -> None:
    assert words_of(one) == words_of(other)
    assert words_of(one) != words_of("lm_head")
