"""What a verdict would have shown: without it "clean" says nothing."""

from __future__ import annotations

import numpy as np

from msprobe_builder.facts.fact import Facts, fact
from msprobe_builder.verdict.model.clue import THRESHOLD, Evidence
from msprobe_builder.verdict.model.noise import spread_of

_MOST_CALLS = 0.95


def would_have_shown(evidence: Evidence) -> Facts:
    """The size of a difference that hardly any call hides, forward and backward, and the noise."""
    runs, seen, expected = evidence.runs, evidence.seen, evidence.expected
    rows = np.flatnonzero(
        ~np.isnan(expected.told) & ~np.isnan(seen.size) & ~runs.discrete & expected.is_whole
    )
    if not len(rows):
        return ()
    spread = spread_of(runs, seen, evidence.does, expected)
    told = expected.told[rows] * spread[rows]
    back = runs.backward[runs.npu.table.node[rows]]
    limits = [
        float(np.quantile(told[back == one], _MOST_CALLS)) * THRESHOLD
        if (back == one).any()
        else 0.0
        for one in (False, True)
    ]
    levels = [
        float(np.median(told[back == one])) if (back == one).any() else 0.0 for one in (False, True)
    ]
    if limits[1] > 0:
        return (
            fact("limits", forward=limits[0], backward=limits[1]),
            fact("assumed_noise", forward=levels[0], backward=levels[1]),
        )
    return (
        fact("limits.forward", forward=limits[0]),
        fact("assumed_noise.forward", forward=levels[0]),
    )
