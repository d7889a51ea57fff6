"""Numbers that ranks make of their own parameters: which follow from what went in."""

from __future__ import annotations

import math

import numpy as np
import pytest

from msprobe_builder.graph.provenance import NumberOf, Numbers, Shares
from msprobe_builder.verdict.ranks import norms
from msprobe_builder.verdict.ranks.norms import Wrong


def numbers(
    own: tuple[float, ...],
    expected: tuple[float, ...] | None = None,
    of: NumberOf = NumberOf.TENSOR,
    *,
    is_reduced: bool = False,
    first: int = 0,
) -> Numbers:
    ranks = tuple(range(first, first + len(own)))
    return Numbers(ranks, own, own if expected is None else expected, of, is_reduced)


@pytest.mark.parametrize(
    ("own", "due", "away"),
    [(1.0, 1.0, 0.0), (2.0, 1.0, 0.5), (1.0, 2.0, 0.5), (0.0, 0.0, 0.0), (0.0, 3.0, 1.0)],
)
def test_how_far_a_number_is_away(own: float, due: float, away: float) -> None:
    assert norms._away(own, due) == away


@pytest.mark.parametrize("of", NumberOf)
def test_a_number_that_does_not_follow_accuses_its_rank(of: NumberOf) -> None:
    one = numbers((1.0, 2.0, 3.0), (1.0, 2.5, 3.00001), of)
    found = norms._wrong(one, 1e-3)
    assert found == ([] if of is NumberOf.RANKS else [Wrong(1, 2.0, 2.5)])
    exact = norms._wrong(one, 1e-7)
    assert [each.rank for each in exact] == ([] if of is NumberOf.RANKS else [1, 2])


def test_the_size_of_a_gradient_is_that_of_its_parts_or_of_one_that_all_hold() -> None:
    assert norms._size(numbers((3.0, 4.0))) == 5.0
    assert norms._size(numbers((3.0, 3.0 * (1 + 5e-5)))) == 3.0
    apart = 3.0 * (1 + 2e-4)
    assert norms._size(numbers((3.0, apart))) == pytest.approx(math.hypot(3.0, apart))


def test_what_a_rank_adds_up_are_the_squares_of_all_its_norms() -> None:
    """Or the root of their sum."""
    taken = {1: numbers((3.0, 1.0)), 2: numbers((4.0, 2.0))}
    for row, (own, wrong) in {
        5: ((25.0, 5.0), []),
        6: ((5.0, math.sqrt(5.0)), []),
        7: ((9.0, 5.0), [Wrong(0, 9.0, 25.0)]),
        8: ((25.0, 4.0), [Wrong(1, 4.0, 5.0)]),
    }.items():
        reduced = numbers(own, of=NumberOf.VALUE, is_reduced=True)
        assert norms._left_out({**taken, row: reduced}, 1e-5) == {row: wrong}
    alone = numbers((7.0,), of=NumberOf.VALUE, is_reduced=True, first=9)
    assert norms._left_out({**taken, 5: alone}, 1e-5) == {5: [Wrong(9, 7.0, 0.0)]}
    assert norms._left_out(taken, 1e-5) == {}


def test_the_sum_over_ranks_is_of_all_that_have_a_number() -> None:
    early = numbers((1.0, 1.0), of=NumberOf.VALUE, is_reduced=True)
    late = numbers((2.0, 3.0), of=NumberOf.VALUE, is_reduced=True)
    other = numbers((100.0, 100.0), of=NumberOf.VALUE)
    sound = {4: late, 2: early, 3: other}
    assert norms._of_all_ranks(sound, {0, 1}) == 5.0
    assert norms._of_all_ranks(sound, None) == 5.0
    assert norms._of_all_ranks(sound, {0, 1, 2}) is None
    assert norms._of_all_ranks({3: other}, None) is None


@pytest.mark.parametrize(
    ("own", "total", "is_whole", "right"),
    [
        ((5.0, 5.0), 5.0, True, True),
        ((5.0, 5.0 * (1 + 5e-6)), 5.0, True, True),
        ((5.0, 5.001), 5.0, True, False),
        ((5.0, 5.001), 5.0, False, True),
        ((5.0, 4.999), 5.0, False, False),
        ((5.0,), None, False, False),
    ],
)
def test_a_total_is_the_sum_or_more_where_there_are_other_replicas(
    own: tuple[float, ...], total: float | None, is_whole: bool, right: bool
) -> None:
    one = numbers(own, of=NumberOf.RANKS)
    assert norms._is_total(one, total, is_whole=is_whole) is right
    found = norms._no_totals({7: one}, total)
    wrong = (
        []
        if total is None
        else [
            Wrong(rank, number, total)
            for rank, number in enumerate(own)
            if abs(number - total) > 1e-5 * max(number, total)
        ]
    )
    assert found == ({7: wrong} if wrong else {})


def test_who_holds_a_gradient_like_the_reference_is_not_to_blame() -> None:
    reference = np.array([1.0, -1.0, 0.0, 3.0])
    assert norms._ranks_of(numbers((3.0, 4.0)), None, reference) == [Wrong(1, 4.0, 3.0)]
    assert norms._ranks_of(numbers((3.0, 3.0)), None, reference) == []
    assert norms._ranks_of(numbers((2.0, 4.0)), None, reference) == []
    assert norms._ranks_of(numbers((4.0,)), None, reference) == [Wrong(0, 4.0, 3.0)]


@pytest.mark.parametrize("wrong", [0, 1, 2])
@pytest.mark.parametrize("factor", [0.5, 2.0, 3.0])
def test_of_shares_the_one_that_is_off_is_told_by_what_it_should_be(
    wrong: int, factor: float
) -> None:
    parts = np.random.default_rng(3).normal(size=(3, 20)) * [[1.0], [2.0], [3.0]]
    whole = parts.reshape(-1)
    reference = np.array([whole.max(), whole.min(), whole.mean(), np.linalg.norm(whole)])
    held = parts.copy()
    held[wrong] *= factor
    statistics = np.stack(
        [held.max(axis=1), held.min(axis=1), held.mean(axis=1), np.linalg.norm(held, axis=1)], 1
    )
    shares = Shares((4, 5, 6), statistics, np.full(3, 20.0))
    own = tuple(float(one) for one in statistics[:, 3])
    [found] = norms._ranks_of(Numbers((4, 5, 6), own, own, NumberOf.TENSOR), shares, reference)
    assert found.rank == 4 + wrong
    assert found.own == pytest.approx(own[wrong])
    assert found.due == pytest.approx(own[wrong] / factor, rel=0.01)
