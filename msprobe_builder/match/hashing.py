"""Several integer columns as one: equal rows get equal keys."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Int = NDArray[np.int64]
Keys = NDArray[np.uint64]

_ODD = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


def mixed(*columns: Int) -> Keys:
    """A 64-bit key per row; equal for different rows only by an accident of 1 in 2**64."""
    key = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        key = (key ^ column.astype(np.uint64)) * _ODD
        key ^= key >> _HALF
    return key


def same_ids(left: Keys, right: Keys) -> tuple[Int, Int]:
    """Keys of both sides as small integers, equal where the keys are."""
    _, ids = np.unique(np.concatenate([left, right]), return_inverse=True)
    ids = ids.reshape(-1).astype(np.int64)
    return ids[: len(left)], ids[len(left) :]
