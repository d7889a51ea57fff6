"""What lies below a module: how many nodes of each grade, and the worst of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import Grade

Int = NDArray[np.int64]


@dataclass(frozen=True)
class Rollup:
    """What lies below each inner node, itself not counted.

    ``counts`` has shape (number of grades, n); ``worst`` is the worst of ok … severe, 0 when
    nothing below is graded.
    """

    node: Int
    counts: Int
    worst: Int
    worst_overflow: Int


def roll_up(subtree_end: Int, grade: Int, overflow: Int) -> Rollup:
    """Roll-ups of all nodes that have children; linear by prefix sums over pre-order."""
    size = len(subtree_end)
    node = np.flatnonzero(subtree_end > np.arange(size))
    end = subtree_end[node]
    below = np.zeros((len(Grade), len(node)), dtype=np.int64)
    for value in Grade:
        total = np.cumsum(grade == value)
        below[value] = total[end] - total[node]
    return Rollup(node, below, _highest(below, Grade.OK, Grade.SEVERE), _worst(node, end, overflow))


def _highest(counts: Int, first: int, last: int) -> Int:
    worst = np.zeros(counts.shape[1], dtype=np.int64)
    for value in range(first, last + 1):
        worst[counts[value] > 0] = value
    return worst


def _worst(node: Int, end: Int, level: Int) -> Int:
    worst = np.zeros(len(node), dtype=np.int64)
    for value in range(1, int(level.max(initial=0)) + 1):
        total = np.cumsum(level == value)
        worst[total[end] > total[node]] = value
    return worst
