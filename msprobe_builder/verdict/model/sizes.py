"""How large the elements of a tensor are, by what was recorded of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
_MAX, _MIN, _NORM = 0, 1, 3


def sizes(numbers: Float, elements: Float, masked: NDArray[np.bool_]) -> tuple[Float, Float, Float]:
    """Root mean square, largest and smallest absolute value of tensors with ``numbers`` (4, n).

    What a mask leaves of ``masked`` ones is as large as the largest of it. Where both signs occur
    nothing is known of the smallest: 0.
    """
    with np.errstate(all="ignore"):
        highest, lowest = np.abs(numbers[_MAX]), np.abs(numbers[_MIN])
        peak = np.fmax(highest, lowest)
        rms = numbers[_NORM] / np.sqrt(elements)
        rms = np.where(np.isfinite(rms) & (rms > 0), rms, peak)
        one_sign = numbers[_MAX] * numbers[_MIN] > 0
    smallest = np.where(one_sign, np.fmin(highest, lowest), 0.0)
    return np.where(masked, highest, rms), np.where(masked, highest, peak), smallest
