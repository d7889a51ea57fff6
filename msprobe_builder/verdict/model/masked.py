"""Numbers that hide what they stand for, such as the lowest of a type behind a softmax's mask."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]

_MAX, _MIN, _NORM = 0, 1, 3  # of the statistics
_MASK = 1e3  # a lowest number that many times the highest one hides what it stands for
MASK_FROM = -9e3
_NOT_HIDDEN = -50.0  # an exponential of less is as good as none
_BESIDE = 4.0
_COUNTED = 1e-5  # of the hidden elements, what sums of a recorder cannot tell


def masked_rows(statistics: Float) -> Bool:
    """Where the minimum is a number that stands for nothing."""
    lowest = statistics[_MIN]
    low = np.asarray(lowest < MASK_FROM)
    if low.any():  # hardly ever
        low &= np.abs(lowest) > _MASK * np.abs(statistics[_MAX])
    return low


def masked_otherwise(debug: Float, reference: Float, masked: Bool, other_masked: Bool) -> Float:
    """What it makes of elements that one side alone has hidden; NaN where nobody knows.

    A norm over its mask value is the root of how many elements are hidden.
    """
    with np.errstate(all="ignore"):
        hidden, there = ((one[_NORM] / one[_MIN]) ** 2 for one in (debug, reference))
        share = np.abs(hidden - there) / np.fmax(hidden, there)
        # What is added to a mask value is there as well.
        beside = _BESIDE * np.fmax(*(np.abs(one[_MAX] / one[_MIN]) for one in (debug, reference)))
        share[share < np.fmax(_COUNTED, beside)] = 0.0
        sees_all = ((debug[_MIN] > _NOT_HIDDEN) & other_masked) | (
            (reference[_MIN] > _NOT_HIDDEN) & masked
        )
        share[masked != other_masked] = np.where(sees_all, 1.0, np.nan)[masked != other_masked]
    return np.asarray(np.sqrt(share))
