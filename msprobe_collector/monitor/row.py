"""What is recorded of one tensor at one step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe_collector.monitor.numbers import Numbers

STATISTICS = ("norm", "mean", "max", "min", "zeros", "nans")


class Row(NamedTuple):
    """One line of the record."""

    kind: str
    name: str
    numbers: Numbers
    sketch: NDArray[np.float32] | None = None  # of the flat order, (FLAT,)

    @property
    def statistics(self) -> tuple[float, ...]:
        """In the order of ``STATISTICS``."""
        own = self.numbers
        return (own.norm, own.mean, own.high, own.low, own.zeros, own.nans)
