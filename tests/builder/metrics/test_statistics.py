"""Statistics metrics against closed forms."""

from __future__ import annotations

from math import inf, isfinite, isnan, nan, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe_builder.metrics.statistics import (
    mean_is_zero,
    statistic_errors,
    worst_error,
)

ANY = st.floats()


def _errors(n: float, b: float) -> tuple[float, float]:
    diff, relative = statistic_errors(np.array([n]), np.array([b]))
    return float(diff[0]), float(relative[0])


@given(n=ANY, b=ANY)
def test_errors_of_any_two_values(n: float, b: float) -> None:
    diff, relative = _errors(n, b)
    if n == b or (isnan(n) and isnan(b)):
        assert (diff, relative) == (0, 0)
    elif isfinite(n) and isfinite(b):
        assert diff == n - b
        assert relative == (abs(n - b) / abs(b) if b else inf)
    else:
        assert not isfinite(diff)
        assert not isfinite(relative)


@pytest.mark.parametrize(
    ("n", "b", "diff", "relative"),
    [
        (2.0, 2.6, -0.6, 0.6 / 2.6),
        (3.0, -2.0, 5.0, 2.5),
        (100.0, 0.0, 100.0, inf),
        (0.0, 100.0, -100.0, 1.0),
        (0.0, -0.0, 0.0, 0.0),
        (inf, inf, 0.0, 0.0),
        (inf, -inf, inf, inf),
        (1.0, inf, -inf, inf),
        (inf, 1.0, inf, inf),
        (nan, nan, 0.0, 0.0),
        (nan, 1.0, nan, nan),
        (1.0, nan, nan, nan),
    ],
)
def test_documented_outcomes(n: float, b: float, diff: float, relative: float) -> None:
    assert _errors(n, b) == pytest.approx((diff, relative), nan_ok=True)


def test_the_worst_error_is_clipped_and_nan_is_worst() -> None:
    relative = np.array([[0.1, 5.0, nan, 0.3], [0.2, 0.0, 0.0, 0.4]])
    counts = np.array([[True, True, True, False], [True, True, True, False]])
    assert worst_error(relative, counts).tolist() == pytest.approx([0.2, 1, 1, nan], nan_ok=True)


@given(
    values=st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=50),
    epsilon=st.sampled_from([2.0**-23, 2.0**-10, 2.0**-7]),
)
def test_a_mean_is_zero_below_the_rounding_unit_of_the_elements(
    values: list[float], epsilon: float
) -> None:
    mean = sum(values) / len(values)
    norm = sqrt(sum(value * value for value in values))
    root_mean_square = sqrt(sum(value * value for value in values) / len(values))
    if abs(abs(mean) - epsilon * root_mean_square) < 1e-9 * root_mean_square:
        return
    found = mean_is_zero(
        np.array([[nan], [nan], [mean], [norm]]), np.array([float(len(values))]), np.array(epsilon)
    )
    assert found.tolist() == [abs(mean) <= epsilon * root_mean_square]
