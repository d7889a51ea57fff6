"""The model of error: readings of known differences, and the chances of what is suspected."""

from __future__ import annotations

import numpy as np
import pytest

from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.certainty import probabilities
from msprobe_builder.verdict.model.clue import THRESHOLD, Clue
from msprobe_builder.verdict.model.observations import Observations, surprise


def readings(own: np.ndarray, theirs: np.ndarray) -> Observations:
    """What maximum, minimum, mean and norm of two tensors tell."""
    numbers = [
        np.array([one.max(), one.min(), one.mean(), np.linalg.norm(one)]) for one in (own, theirs)
    ]
    rms = numbers[1][3] / np.sqrt(theirs.size)
    units = np.array(
        [max(rms, abs(numbers[1][0])), max(rms, abs(numbers[1][1])), rms, numbers[1][3]]
    )
    moved = (np.abs(numbers[0] - numbers[1]) / units)[:, None]
    one = np.ones(1)
    return Observations(
        size=moved.max(axis=0),
        shown=moved.max(axis=0),
        moved=moved,
        exact=np.full(1, np.nan),
        rms=one,
        norm=one,
        mean=one,
        peak=one,
        smallest=one,
        elements=one * theirs.size,
        resolution=one * 2e-7,
        remains=np.zeros(1, dtype=bool),
        differs=np.ones(1, dtype=bool),
        is_factor=np.zeros(1, dtype=bool),
    )


@pytest.mark.parametrize("elements", [64, 4096, 131072])
@pytest.mark.parametrize("error", [1e-6, 1e-3, 1e-2])
def test_rounding_of_the_expected_size_surprises_nobody(elements: int, error: float) -> None:
    rng = np.random.default_rng(elements)
    scores = []
    for _ in range(40):
        theirs = rng.normal(size=elements)
        own = theirs + error * rng.normal(size=elements)
        scores.append(
            float(surprise(readings(own, theirs), np.zeros(1, int), np.array([error]))[0])
        )
    assert np.quantile(scores, 0.9) < 3


@pytest.mark.parametrize("error", [1e-6, 1e-3])
def test_a_factor_shows_where_noise_of_the_same_size_would_not(error: float) -> None:
    theirs = np.random.default_rng(1).normal(size=131072)
    seen = readings(theirs * (1 + 10 * error), theirs)
    assert surprise(seen, np.zeros(1, int), np.array([error]))[0] > THRESHOLD


def test_a_single_element_says_little() -> None:
    theirs = np.random.default_rng(1).normal(size=4096)
    own = theirs.copy()
    own[theirs.argmax()] *= 1 + 1e-4
    rest = own.copy()
    rest *= 1 + 1e-4
    alone, all_of_them = (
        surprise(readings(one, theirs), np.zeros(1, int), np.array([1e-6]))[0]
        for one in (own, rest)
    )
    assert alone < all_of_them / 5


def test_chances_of_suspects_add_up_to_no_more_than_one() -> None:
    found = [Clue(50.0, 0, node, cause, node, 1.0, 0.01) for node, cause in enumerate(Cause)]
    chances = probabilities(found)
    assert sum(chances) <= 1
    assert chances[0] == max(chances)
