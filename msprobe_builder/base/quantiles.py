"""Quantiles as numpy tells them, which to tell the first loads 10 ms of what nothing here needs."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]


def quantile(values: Float, share: float) -> float:
    """What ``share`` of the values are below, between the two nearest of them; NaN of none."""
    place = max(0, len(values) - 1) * share
    low, high = _beside(values, math.floor(place))
    part = place - math.floor(place)
    return high - (high - low) * (1 - part) if part >= 0.5 else low + (high - low) * part


def median(values: Float) -> float:
    """The value in the middle, or what is between the two there; NaN of none."""
    low, high = _beside(values, (len(values) - 1) // 2)
    return low if len(values) % 2 else (low + high) / 2


def _beside(values: Float, place: int) -> tuple[float, float]:
    """The value at a place of their order and the next; NaN where any is, or there are none."""
    last = len(values) - 1
    if last < 0:
        return math.nan, math.nan
    following = min(place + 1, last)
    nearest = np.partition(values, sorted({place, following, last}))
    if np.isnan(nearest[last]):  # which is sorted last
        return math.nan, math.nan
    return float(nearest[place]), float(nearest[following])
