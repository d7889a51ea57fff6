"""Aligning two sequences of calls so that as many as possible find an equal one, in order."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

Int = NDArray[np.int64]

# Bits of the exact method's table (32 MB); longer sequences are cut at rare tokens first.
_TABLE_BITS = 1 << 28
_WINDOW = 4096
_NOTHING = np.empty(0, dtype=np.int64)


def align(a: Int, b: Int) -> tuple[Int, Int]:
    """Positions in ``a`` and in ``b`` of a common subsequence, ascending on both sides.

    It is a longest one unless both sequences are so long that its table would not fit; then
    tokens that occur once on each side are the fixed points, and what lies between them is
    aligned in overlapping windows. The cost stays near-linear in the length.
    """
    if np.array_equal(a, b):
        return np.arange(len(a)), np.arange(len(a))
    kept_a, kept_b = np.flatnonzero(np.isin(a, b)), np.flatnonzero(np.isin(b, a))
    x, y = _trimmed(a[kept_a], b[kept_b])
    return kept_a[x], kept_b[y]


def align_around(a: Int, b: Int, x: Int, y: Int) -> tuple[Int, Int]:
    """Like :func:`align`, but keeps pairs that are known, as far as they do not cross.

    ``x`` and ``y`` are the positions of the known pairs, ``x`` ascending. They are given up
    where that leaves fewer calls without a partner.
    """
    if np.array_equal(a, b):
        return np.arange(len(a)), np.arange(len(a))
    kept = longest_increasing(y)
    known = fill_gaps(a, b, x[kept], y[kept])
    if len(known[0]) == min(len(a), len(b)):
        return known
    free = align(a, b)
    return free if len(free[0]) > len(known[0]) else known


def longest_increasing(values: Int) -> Int:
    """Positions of a longest strictly increasing subsequence."""
    if len(values) < 2 or bool((np.diff(values) > 0).all()):
        return np.arange(len(values))
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for position, value in enumerate(values.tolist()):
        length = bisect_left(tails, value)
        before.append(ends[length - 1] if length else -1)
        if length == len(tails):
            tails.append(value)
            ends.append(position)
        else:
            tails[length] = value
            ends[length] = position
    chain = []
    position = ends[-1]
    while position >= 0:
        chain.append(position)
        position = before[position]
    return np.array(chain[::-1], dtype=np.int64)


def fill_gaps(a: Int, b: Int, x: Int, y: Int) -> tuple[Int, Int]:
    """The pairs x, y, ascending on both sides, and between each two of them an alignment."""
    from_a, to_a = np.r_[0, x + 1], np.r_[x, len(a)]
    from_b, to_b = np.r_[0, y + 1], np.r_[y, len(b)]
    parts = [(x, y)]
    for gap in np.flatnonzero((from_a < to_a) & (from_b < to_b)).tolist():
        i, j = from_a[gap], from_b[gap]
        inner = align(a[i : to_a[gap]], b[j : to_b[gap]])
        parts.append((inner[0] + i, inner[1] + j))
    left = np.concatenate([part[0] for part in parts])
    order = np.argsort(left)
    return left[order], np.concatenate([part[1] for part in parts])[order]


def _trimmed(a: Int, b: Int) -> tuple[Int, Int]:
    """Pair the common beginning and end; no longest common subsequence is lost by that."""
    shorter = min(len(a), len(b))
    head = _first_difference(a[:shorter], b[:shorter])
    rest = shorter - head
    tail = _first_difference(a[len(a) - rest :][::-1], b[len(b) - rest :][::-1])
    x, y = _middle(a[head : len(a) - tail], b[head : len(b) - tail])
    begin, end = np.arange(head), np.arange(tail)
    return (
        np.concatenate([begin, x + head, end + len(a) - tail]),
        np.concatenate([begin, y + head, end + len(b) - tail]),
    )


def _first_difference(a: Int, b: Int) -> int:
    different = a != b
    return int(different.argmax()) if different.any() else len(a)


def _middle(a: Int, b: Int) -> tuple[Int, Int]:
    if not len(a) or not len(b):
        return _NOTHING, _NOTHING
    if len(a) * len(b) <= _TABLE_BITS:
        return _longest(a, b)
    x, y = _unique_to_both(a, b)
    kept = longest_increasing(y)
    if len(kept):
        return fill_gaps(a, b, x[kept], y[kept])
    return _windows(a, b)


def _unique_to_both(a: Int, b: Int) -> tuple[Int, Int]:
    """Positions of tokens that occur exactly once on each side, ascending in ``a``."""
    tokens_a, first_a, count_a = np.unique(a, return_index=True, return_counts=True)
    tokens_b, first_b, count_b = np.unique(b, return_index=True, return_counts=True)
    _, in_a, in_b = np.intersect1d(
        tokens_a[count_a == 1], tokens_b[count_b == 1], assume_unique=True, return_indices=True
    )
    x, y = first_a[count_a == 1][in_a], first_b[count_b == 1][in_b]
    order = np.argsort(x)
    return x[order], y[order]


def _longest(a: Int, b: Int) -> tuple[Int, Int]:
    """A longest common subsequence; one row of the table is one long integer.

    Bit j of row i is 0 where the longest common subsequence of a[:i+1] with b[:j+1] is longer
    than that with b[:j]. Adding to a whole row carries such steps to where they belong.
    """
    places: dict[int, int] = {}
    for j, token in enumerate(b.tolist()):
        places[token] = places.get(token, 0) | 1 << j
    everywhere = row = (1 << len(b)) - 1
    rows = []
    for token in a.tolist():
        hits = row & places.get(token, 0)
        row = ((row + hits) | (row - hits)) & everywhere
        rows.append(row)
    x, y = [], []
    i, j = len(a) - 1, len(b) - 1
    while i >= 0 and j >= 0:
        if rows[i] >> j & 1:
            j -= 1
        elif i and not rows[i - 1] >> j & 1:
            i -= 1
        else:
            x.append(i)
            y.append(j)
            i -= 1
            j -= 1
    return np.array(x[::-1], dtype=np.int64), np.array(y[::-1], dtype=np.int64)


def _windows(a: Int, b: Int) -> tuple[Int, Int]:
    """Align window after window, keeping of each what lies in its first half."""
    half = _WINDOW // 2
    parts = [(_NOTHING, _NOTHING)]
    i = j = 0
    while i < len(a) and j < len(b):
        x, y = _longest(a[i : i + _WINDOW], b[j : j + _WINDOW])
        if i + _WINDOW < len(a) or j + _WINDOW < len(b):
            kept = int(np.searchsorted(x, half))
            if not len(x):
                i, j = i + half, j + half
                continue
            if not kept:
                i, j = i + int(x[0]), j + int(y[0])
                continue
            x, y = x[:kept], y[:kept]
        if not len(x):
            break
        parts.append((x + i, y + j))
        i, j = i + int(x[-1]) + 1, j + int(y[-1]) + 1
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
