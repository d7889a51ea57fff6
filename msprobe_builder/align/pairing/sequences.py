"""Deciding which items of two sequences belong together, from the evidence for each pair."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.scores import IMPOSSIBLE, THRESHOLD
from msprobe_builder.base.sequence import longest_increasing

Int = NDArray[np.int64]
Float = NDArray[np.float64]

_MARGIN = 0.35  # by which the best alignment must exceed those that pair a node otherwise
_CLEAR = 0.7  # by which a pair must exceed all others of both nodes to stand across others
_STRONG = 5.0  # evidence that a pair across others needs
_FORCED = 1000.0


def decide(score: Float) -> tuple[Int, Int, Int]:
    """Rows and columns that are paired, ascending rows, and the rows left open by a tie.

    The pairs are those of the best alignment without crossing. What is far better than all
    other choices of both nodes is paired even across others: independent calls trade places.
    A pair that an alignment almost as good makes otherwise is left open.
    """
    score = np.where(score > THRESHOLD, score, IMPOSSIBLE)
    i, j = clear(score)
    kept = longest_increasing(j)
    forced = score.copy()
    forced[i], forced[:, j] = IMPOSSIBLE, IMPOSSIBLE
    forced[i[kept], j[kept]] = score[i[kept], j[kept]] + _FORCED
    forced -= THRESHOLD  # what a pair weighs more than none
    best = _prefixes(forced)
    rest = _prefixes(forced[::-1, ::-1])[::-1, ::-1]
    through = best[:-1, :-1] + forced + rest[1:, 1:]
    possible = (through > best[-1, -1] - _MARGIN) & (forced > 0)
    alone_in_row, alone_in_column = possible.sum(axis=1) == 1, possible.sum(axis=0) == 1
    sure = possible & alone_in_row[:, None] & alone_in_column
    x, y = np.nonzero(sure)
    aside = np.ones(len(i), dtype=bool)
    aside[kept] = False
    rows, columns = np.r_[x, i[aside]], np.r_[y, j[aside]]
    order = np.argsort(rows)
    open_rows = np.flatnonzero(possible.any(axis=1) & ~sure.any(axis=1))
    return rows[order], columns[order], open_rows


def clear(score: Float) -> tuple[Int, Int]:
    """Pairs that are far better than any other of their row and of their column."""
    if not score.size:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    j = score.argmax(axis=1)
    i = np.arange(len(score))
    best = score[i, j]
    others = score.copy()
    others[i, j] = IMPOSSIBLE
    clear = (best >= _STRONG) & (best >= others.max(axis=1) + _CLEAR)
    i, j = i[clear], j[clear]
    column = score[:, j]
    column[i, np.arange(len(i))] = IMPOSSIBLE
    clear = best[i] >= column.max(axis=0) + _CLEAR if len(i) else np.empty(0, bool)
    return i[clear], j[clear]


def _prefixes(score: Float) -> Float:
    """The evidence of the best alignment of the first i rows with the first j columns."""
    rows, columns = score.shape
    result = np.zeros((rows + 1, columns + 1))
    for i in range(rows):
        line = np.maximum(result[i, 1:], result[i, :-1] + score[i])
        np.maximum.accumulate(line, out=result[i + 1, 1:])
    return result
