"""What is recorded of one tensor at one step."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
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


def joined(kind: str, name: str, parts: Sequence[Numbers], sums: NDArray[np.float32] | None) -> Row:
    """The row of one or several tensors; ``sums`` are the rows of sketches that they name.

    The sketch of several is their sum with signs that follow no pattern, so that its length is
    that of all together but for chance.
    """
    numbers = reduce(Numbers.together, parts)
    if sums is None or any(one.sketch < 0 for one in parts):
        return Row(kind, name, numbers)
    signs = [1 - 2 * (at.bit_count() & 1) for at in range(len(parts))]
    return Row(
        kind, name, numbers, np.array(signs, np.float32) @ sums[[one.sketch for one in parts]]
    )
