"""The pairs as they are made, and how each was found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.scores import Known
from msprobe_builder.align.traits import Traits
from msprobe_builder.base.codes import Evidence

Int = NDArray[np.int64]


@dataclass
class Pairs:
    """Partners of both sides while they are found; ``weight`` is the evidence of a pair.

    Pairs that were ``asked`` for are never dropped.
    """

    npu: Traits
    bench: Traits
    known: Known
    partner: Int
    back: Int
    evidence: Int
    weight: NDArray[np.float64]
    asked: NDArray[np.bool_]

    def add(self, i: int, j: int, evidence: Evidence, weight: float) -> bool:
        """Match two nodes unless one has a partner."""
        if self.partner[i] >= 0 or self.back[j] >= 0:
            return False
        self.partner[i], self.back[j] = j, i
        self.evidence[i], self.weight[i] = evidence, weight
        return True

    def drop(self, i: int) -> None:
        """Take a pair back."""
        self.back[self.partner[i]] = -1
        self.partner[i] = -1
        self.evidence[i] = 0
