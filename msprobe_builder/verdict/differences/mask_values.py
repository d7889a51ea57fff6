"""Numbers that stand for nothing: what a mask fills in, such as the lowest one of a type."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

_LEAST_MASK = 1e3
_LOWEST = 9.9e3  # -65504 of float16, or -1e4, which is -9984 in bfloat16
_MAX, _MIN, _MEAN, _NORM = range(4)


def mask_values(n: Float, b: Float, elements: Float) -> Bool:
    """Which of max and min, of shape (2, k), are constants far beyond the other one.

    ``n`` and ``b`` are max, min, mean and norm of k pairs. Only the other extreme tells anything
    then: norm and mean are made of the mask value, which differs from type to type. What is nowhere
    below 0, such as squares, has a maximum as far beyond its minimum: that is no mask value.
    """
    found = np.zeros((2, n.shape[1]), dtype=bool)
    with np.errstate(all="ignore"):
        for mask_value, other in ((_MIN, _MAX), (_MAX, _MIN)):
            far, far_there = (
                (np.abs(one[mask_value]) > _LEAST_MASK * np.abs(one[other]))
                & (np.abs(one[mask_value]) >= _LEAST_MASK)
                for one in (n, b)
            )
            alike = np.abs(n[mask_value] - b[mask_value]) <= np.abs(b[mask_value]) / 64
            # Each side may fill with a number of its own.
            own = (far | far_there) & _is_hidden(n[mask_value]) & _is_hidden(b[mask_value])
            found[mask_value] = (far_there & alike) | own
    maxima = np.flatnonzero(found[_MAX])
    for one in (n, b) if len(maxima) else ():
        found[_MAX, maxima] &= _is_one_number(one[:, maxima], elements[maxima])
    return found


def _is_one_number(statistics: Float, elements: Float) -> Bool:
    """Whether all that is large is the maximum again and again: (norm / max)² times, in the sum."""
    largest, smallest = np.abs(statistics[:2])
    with np.errstate(all="ignore"):
        times = (statistics[_NORM] / largest) ** 2
        off = np.abs(statistics[_MEAN] * elements / largest - times)
        return np.asarray(~(off > times / 16 + elements * smallest / largest))


def _is_hidden(low: Float) -> Bool:
    """Whether a minimum only hides what a mask covers: -inf, or the lowest number of a type."""
    return np.asarray(low <= -_LOWEST, dtype=bool)
