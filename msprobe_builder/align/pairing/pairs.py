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
Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

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
    weight: Float
    asked: Bool
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

    def add_all(self, a: Int, b: Int, evidence: Evidence, weight: Float) -> Bool:
        """The same of many pairs, of which none shares a node with another; which are new."""
        new = (self.partner[a] < 0) & (self.back[b] < 0)
        if self.denied:
            both = zip(a.tolist(), b.tolist(), strict=True)
            new &= np.array([one not in self.denied for one in both], dtype=bool)
        a, b = a[new], b[new]
        self.partner[a], self.back[b] = b, a
        self.evidence[a], self.weight[a] = evidence, weight[new]
        return np.asarray(new)

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
    note_all(pairs, np.array([i]), np.array([j]))


def note_all(pairs: Pairs, a: Int, b: Int) -> None:
    """The same of many pairs, one after the other."""
    known = pairs.known
    stem, other = known.stem[a], known.other_stem[b]
    same, shift = stem == other, known.call[a] - known.other_call[b]
    known.shift.update(zip(stem[same].tolist(), shift[same].tolist(), strict=True))
    is_module = pairs.npu.outline.kind[a] == Kind.MODULE
    stem, other = stem[is_module][::-1], other[is_module][::-1]
    for one, its in dict(zip(stem.tolist(), other.tolist(), strict=True)).items():
        known.stems.setdefault(one, its)  # that of the first
    known.taken_stems.update(other.tolist())
