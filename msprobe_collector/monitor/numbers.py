"""The numbers that are recorded of a tensor, whatever the framework."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Numbers:
    """Of one or several tensors taken together."""

    squares: float  # the sum of squares
    total: float
    high: float
    low: float
    zeros: int
    nans: int
    count: int
    some: tuple[float, ...] = ()  # of the elements
    sketch: int = -1  # the number of its row, -1 without

    @property
    def norm(self) -> float:
        """The L2 norm."""
        return math.sqrt(self.squares) if self.squares >= 0 else math.nan

    @property
    def mean(self) -> float:
        """NaN of nothing."""
        return self.total / self.count if self.count else math.nan

    def together(self, other: Numbers) -> Numbers:
        """Those of both, as if they were one tensor; NaN stays NaN."""
        return Numbers(
            self.squares + other.squares,
            self.total + other.total,
            _larger(self.high, other.high),
            -_larger(-self.low, -other.low),
            self.zeros + other.zeros,
            self.nans + other.nans,
            self.count + other.count,
        )


def _larger(one: float, other: float) -> float:
    return math.nan if math.isnan(one) or math.isnan(other) else max(one, other)


def single(value: float) -> Numbers:
    """Those of one number, such as a learning rate."""
    return Numbers(value * value, value, value, value, int(value == 0), int(value != value), 1)
