"""The pairs as they are made, and how each was found."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.scores import THRESHOLD, Known
from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.base.codes import Evidence
from msprobe_builder.dump.names import Kind
from msprobe_builder.match.matching import Likely

Int = NDArray[np.int64]

Choices = list[tuple[int, float]]


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
    # By side: what the evidence says of nodes that stay open, with its weight, the best first.
    open: tuple[dict[int, Choices], dict[int, Choices]] = field(default_factory=lambda: ({}, {}))
    denied: set[tuple[int, int]] = field(default_factory=set)

    def add(self, i: int, j: int, evidence: Evidence, weight: float) -> bool:
        """Match two nodes unless one has a partner, or they were a pair that was taken back."""
        if self.partner[i] >= 0 or self.back[j] >= 0 or (i, j) in self.denied:
            return False
        self.partner[i], self.back[j] = j, i
        self.evidence[i], self.weight[i] = evidence, weight
        return True

    def alike(self, i: int, j: int) -> bool:
        """Whether two nodes do one thing with tensors of one extent, and may become a pair."""
        npu, bench, extent = self.npu, self.bench, self.known.trust.extent
        return (
            not self.asked[i]
            and int(npu.operator[i]) == int(bench.operator[j])
            and all(
                bool(extent(debug)[i] == extent(reference)[j])
                for debug, reference in (
                    (npu.outputs, bench.outputs),
                    (npu.parameters, bench.parameters),
                    (npu.inputs, bench.inputs),
                )
            )
        )

    def drop(self, i: int) -> None:
        """Take a pair back."""
        self.back[self.partner[i]] = -1
        self.partner[i] = -1
        self.evidence[i] = 0

    def take_back(self, i: int, *, for_good: bool = True) -> bool:
        """Leave an automatic pair grey; it stays as a candidate, for what contradicts it weighs
        as much as what spoke for it. Unless it is ``for_good`` other evidence may make it again.
        """
        other = int(self.partner[i])
        if other < 0 or self.asked[i] or self.evidence[i] == 0:
            return False
        weight = min(float(self.weight[i]), THRESHOLD)
        self.drop(i)
        if for_good:
            self.denied.add((i, other))
        self.open[0].setdefault(i, [(other, weight)])
        self.open[1].setdefault(other, [(i, weight)])
        return True

    def likely(self, side: int) -> Likely:
        """Who the nodes of a side without a partner may belong to; both have none.

        Weights are log-odds: that a node belongs to none weighs as much as the threshold.
        """
        own, other = (self.partner, self.back)[:: 1 - 2 * side]
        rows: list[tuple[int, int, float]] = []
        for node, choices in sorted(self.open[side].items()):
            free = [(one, weight) for one, weight in choices if other[one] < 0]
            if own[node] >= 0 or not free:
                continue
            odds = np.exp(np.minimum([weight - THRESHOLD for _, weight in free], 50.0))
            share = odds / (1.0 + odds.sum())
            rows += [(node, one, float(p)) for (one, _), p in zip(free, share, strict=True)]
        columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
        return Likely(
            np.array(columns[0], dtype=np.int64),
            np.array(columns[1], dtype=np.int64),
            np.array(columns[2], dtype=np.float64),
        )


def note(pairs: Pairs, i: int, j: int) -> None:
    """Remember which modules were matched, and where the counter of a call stands."""
    stem, other = int(pairs.known.stem[i]), int(pairs.known.other_stem[j])
    if stem == other:
        pairs.known.shift[stem] = int(pairs.known.call[i] - pairs.known.other_call[j])
    if pairs.npu.outline.kind[i] == Kind.MODULE:
        pairs.known.stems.setdefault(stem, other)
        pairs.known.taken_stems.add(other)
