"""Rows of one kind that a rank recorded with sketches, to be held against those of other ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.trend.monitor import STATISTICS, RankValues

Floats: TypeAlias = "NDArray[np.float64]"
_NORM = STATISTICS.index("norm")


@dataclass(frozen=True)
class Rows:
    """Rows of one kind, rising by step and name; ``keys`` are the step times names plus a name."""

    keys: NDArray[np.int64]
    norm: Floats
    count: NDArray[np.int64]
    sketch: Floats  # (rows, FLAT)

    def at(self, keys: NDArray[np.int64]) -> Rows:
        """Those of ``keys``, which are among them."""
        rows = np.searchsorted(self.keys, keys)
        return Rows(keys, self.norm[rows], self.count[rows], self.sketch[rows])


def rows_of(values: RankValues, kind: str, names: Mapping[str, int], end: str = "") -> Rows:
    """Rows of a kind that have a sketch, of ``names`` with that ``end``, numbered by them."""
    if values.sketch is None:
        nothing = np.zeros(0, np.int64)
        return Rows(nothing, np.zeros(0), nothing, np.zeros((0, 0)))
    number = np.array(
        [names.get(n, -1) if k == kind and n.endswith(end) else -1 for k, n in values.targets],
        np.int64,
    )
    places = number[values.target]
    rows = np.flatnonzero((places >= 0) & np.isfinite(values.sketch).all(axis=1))
    width = 1 + max(names.values(), default=0)
    keys, first = np.unique(values.step[rows] * width + places[rows], return_index=True)
    rows = rows[first]
    sketch = values.sketch[rows].astype(np.float64)
    return Rows(keys, values.values[rows, _NORM], values.count[rows], sketch)
