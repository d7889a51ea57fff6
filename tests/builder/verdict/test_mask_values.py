"""What a mask has filled in is told from a large number that was computed."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from msprobe_builder.verdict.differences.mask_values import mask_values

Float = NDArray[np.float64]


def _statistics(values: Float) -> Float:
    norm = np.linalg.norm(values)
    return np.array([values.max(), values.min(), values.mean(), norm])[:, None]


def _filled(values: Float) -> tuple[bool, bool]:
    """Whether the maximum and the minimum are mask values, on both sides alike."""
    both = _statistics(values)
    largest, smallest = mask_values(both, both, np.array([float(values.size)]))[:, 0]
    return bool(largest), bool(smallest)


_SCORES = np.random.default_rng(5).normal(size=400)


def test_squares_have_no_filler_however_large_they_are() -> None:
    assert _filled((200 * _SCORES) ** 2) == (False, False)


def test_the_one_large_number_among_small_ones_may_be_one() -> None:
    assert _filled(np.append(np.abs(_SCORES) + 0.5, 5e4)) == (True, False)


@pytest.mark.parametrize("share", [0.02, 0.5, 0.95])
def test_a_mask_of_the_largest_number_is_one(share: float) -> None:
    values = np.abs(_SCORES) + 0.1
    values[: int(share * len(values))] = 1e9
    assert _filled(values) == (True, False)


@pytest.mark.parametrize("mask_value", [-1e4, -1e9, -np.inf])
def test_a_mask_of_the_lowest_number_is_one(mask_value: float) -> None:
    values = _SCORES.copy()
    values[::3] = mask_value
    assert _filled(values) == (False, True)
