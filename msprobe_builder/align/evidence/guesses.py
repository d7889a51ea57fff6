"""What is guessed of calls as evidence for the modules that hold them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.traits import Traits

Int = NDArray[np.int64]
Float = NDArray[np.float64]

_STRAY = 0.1  # share of the calls of a module whose guesses may be wrong


def held_guesses(npu: Traits, bench: Traits, a: Int, b: Int, guesses: tuple[Int, Int]) -> Float:
    """From -1 to 1: how much of what is guessed of calls inside two modules stays inside both.

    ``guesses`` are the likely partners of the calls of both sides, -1 without.
    """
    guess, other_guess = guesses
    result = np.zeros((len(a), len(b)))
    if not (guess >= 0).any():
        return result
    ends, other_ends = npu.outline.tree.subtree_end, bench.outline.tree.subtree_end
    counts = np.r_[0, np.cumsum(other_guess >= 0)]
    there = counts[other_ends[b] + 1] - counts[b]
    for row, node in enumerate(a.tolist()):
        inside = guess[node : int(ends[node]) + 1]
        inside = np.sort(inside[inside >= 0])
        begin, end = np.searchsorted(inside, b), np.searchsorted(inside, other_ends[b], "right")
        most = np.maximum(len(inside), there)
        outside = len(inside) + there - 2 * (end - begin)
        fits = np.maximum(1.0 - 2.0 * outside / (1.0 + _STRAY * most), -1.0)
        result[row] = np.where(most > 0, fits, 0.0)
    return result
