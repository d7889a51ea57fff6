"""What a verdict would have shown: without it "clean" says nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.facts.fact import Facts, fact
from msprobe_builder.graph.floating import SINGLE
from msprobe_builder.verdict.model.clue import THRESHOLD, Evidence
from msprobe_builder.verdict.model.noise import QUIET, spread_of
from msprobe_builder.verdict.model.observations import (
    COMMON,
    EXACT_OF_FEW,
    EXACT_OF_MANY,
    SEVERAL,
    SHARPER,
    SUMMED,
)

Float = NDArray[np.float64]

# Of how many calls limits are told: of most of them that leave something to be told.
_SHARES, _TOO_WIDE = (0.95, 0.9, 0.75, 0.5), 1.0
# Where types differ as a habit, or most calls differ in half precision, and a third of the calls
# hides more than this, one of seven planted faults was called clean; else one of a hundred was.
_FORWARD, _BACKWARD, _MANY_CALLS, _FEW = 0.02, 0.2, 1 / 3, 30
# Times what is expected, from which on what was measured of many and of few elements is a clue.
_SEEN_OF_MANY, _SEEN_OF_FEW = EXACT_OF_MANY * THRESHOLD ** (1 / SHARPER), EXACT_OF_FEW * THRESHOLD


@dataclass(frozen=True)
class Limits:
    """Parts of a size that ``share`` of the calls would have shown, 0 where there are none.

    ``factor`` is one that all elements of what a forward call puts out are off by. ``levels`` are
    the errors that were expected, forward and backward. ``hides``: many calls hide much;
    ``by_statistics``: nothing else was recorded of any tensor.
    """

    share: float = 1.0
    forward: float = 0.0
    backward: float = 0.0
    factor: float = 0.0
    levels: tuple[float, float] = (0.0, 0.0)
    hides: bool = False
    by_statistics: bool = False

    @property
    def told(self) -> Facts:
        """What is said of them."""
        if not self.forward and not self.backward:
            return ()
        calls = round(100 * self.share)
        factor = fact("limits.factor", factor=self.factor, calls=calls)
        places = (fact("limits.places"),) if self.by_statistics else ()
        if not self.backward:
            noise = fact("assumed_noise.forward", forward=self.levels[0])
            whole = fact("limits.forward", forward=self.forward, calls=calls)
        else:
            noise = fact("assumed_noise", forward=self.levels[0], backward=self.levels[1])
            whole = fact("limits", forward=self.forward, backward=self.backward, calls=calls)
        return (factor, whole, *places, noise)


def limits_of(evidence: Evidence) -> Limits:
    """The size of a difference that hardly any call hides, and the noise that it is told by."""
    runs, seen, expected = evidence.runs, evidence.seen, evidence.expected
    rows = np.flatnonzero(
        ~np.isnan(expected.told) & ~np.isnan(seen.size) & ~runs.discrete & expected.is_whole
    )
    if not len(rows):
        return Limits()
    told = expected.told[rows] * spread_of(runs, seen, evidence.does, expected, rows)
    back = runs.backward[runs.npu.table.node[rows]]
    # The norm tells a factor best: it moves by as much, and by little of what rounding does.
    common = COMMON + 1 / np.sqrt(seen.elements[rows])
    norm = told * common + seen.resolution[rows] + np.minimum(1.0, told * told) / 2
    measured = ~np.isnan(seen.exact[rows])
    seen_from = np.where(seen.elements[rows] >= SEVERAL, _SEEN_OF_MANY, _SEEN_OF_FEW)
    limit = np.where(measured, seen_from, THRESHOLD) * (told + SUMMED)
    norm *= THRESHOLD
    norm = np.where(measured, np.minimum(norm, limit), norm)
    ways = limit[back], limit[~back]
    shares = [one for one in _SHARES if all(_quantile(way, one) < _TOO_WIDE for way in ways)]
    share = shares[0] if shares else _SHARES[-1]
    is_wide = THRESHOLD * (told + SUMMED) > np.where(back, _BACKWARD, _FORWARD)
    in_half = runs.in_use > SINGLE and float(seen.differs[rows].mean()) >= QUIET
    many = any(is_wide[here].mean() > _MANY_CALLS for here in (back, ~back) if here.any())
    # Or half of the calls of a direction tell nothing at all.
    hides = not shares or (many and (runs.is_mixed or in_half))
    return Limits(
        share,
        forward=_quantile(limit[~back], share),
        backward=_quantile(limit[back], share),
        factor=_quantile(norm[~back], share),
        levels=(_quantile(told[~back], 0.5), _quantile(told[back], 0.5)),
        hides=hides and len(rows) >= _FEW,
        by_statistics=bool(np.isnan(seen.exact[rows]).all()),
    )


def _quantile(values: Float, share: float) -> float:
    return float(np.quantile(values, share)) if len(values) else 0.0
