"""Pairs of another step or rank, where the evidence of a rank's own does not decide.

Behind a fault nothing agrees. A rank that is wrong from its start leaves calls alone which the
others, running the same program, pair by their values; there equal names are the same calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import Evidence
from msprobe_builder.graph.side import Side
from msprobe_builder.graph.tree import Tree
from msprobe_builder.match.matching import Alignment, Group, Likely, Told, ToldGroup, inverse

Int = NDArray[np.int64]


def with_told(alignment: Alignment, npu: Side, bench: Side, told: Told) -> Alignment:
    """``alignment`` completed by what another step or rank pairs under the same names.

    Only nodes without a partner on both sides get one, and only where both sides make the calls of
    their stems as often as there: a call more shifts the numbers. Groups of such calls give way to
    those that were found there.
    """
    nodes = _Nodes(npu, bench, alignment, told)
    kept = [one for one in alignment.groups if nodes.has_shifted(one)]
    nodes.know(kept)
    evidence, certainty = alignment.evidence.copy(), alignment.certainty.copy()
    for own, other, sure in told.pairs:
        i, j = nodes.alone(0, own), nodes.alone(1, other)
        if i is not None and j is not None and nodes.holds_no_other(i, j):
            nodes.partner[i], nodes.back[j] = j, i
            evidence[i], certainty[i] = Evidence.ELSEWHERE, sure
    groups = [group for one in told.groups if (group := nodes.group(one)) is not None]
    nodes.know(groups)
    return replace(
        alignment,
        partner=nodes.partner,
        evidence=evidence,
        certainty=certainty,
        groups=(*kept, *groups),
        npu_likely=_still(alignment.npu_likely, nodes.partner, nodes.back),
        bench_likely=_still(alignment.bench_likely, nodes.back, nodes.partner),
    )


class _Nodes:
    """Both sides by names, with the pairs as they are made."""

    def __init__(self, npu: Side, bench: Side, alignment: Alignment, told: Told) -> None:
        self.sides = npu, bench
        self.partner = alignment.partner.copy()
        self.back = inverse(self.partner, len(bench.tree))
        self.grouped = set[int](), set[int]()
        self._by_name = [
            {name: node for node, name in enumerate(side.tree.names) if node} for side in self.sides
        ]
        self._shifted = [
            _shifted(side.tree, there) for side, there in zip(self.sides, told.calls, strict=True)
        ]

    def know(self, groups: Iterable[Group]) -> None:
        """Leave the calls of groups out from now on."""
        for group in groups:
            self.grouped[0].update(group.npu)
            self.grouped[1].update(group.bench)

    def has_shifted(self, group: Group) -> bool:
        """Whether a number of one of the calls of a group may say something else there."""
        return any(
            side.tree.parsed[node].stem in shifted
            for side, shifted, nodes in zip(
                self.sides, self._shifted, (group.npu, group.bench), strict=True
            )
            for node in nodes
        )

    def alone(self, side: int, name: str) -> int | None:
        """The node of this name, if it has no partner and its number says the same as there."""
        node = self._by_name[side].get(name)
        if node is None or node in self.grouped[side] or (self.partner, self.back)[side][node] >= 0:
            return None
        return None if self.sides[side].tree.parsed[node].stem in self._shifted[side] else node

    def holds_no_other(self, i: int, j: int) -> bool:
        """Whether what two nodes hold is paired with what the other holds, as far as it is."""
        end, other_end = self.sides[0].tree.subtree_end[i], self.sides[1].tree.subtree_end[j]
        inside, other_inside = self.partner[i + 1 : end + 1], self.back[j + 1 : other_end + 1]
        inside, other_inside = inside[inside >= 0], other_inside[other_inside >= 0]
        return bool(
            ((inside > j) & (inside <= other_end)).all()
            and ((other_inside > i) & (other_inside <= end)).all()
        )

    def group(self, told: ToldGroup) -> Group | None:
        """A group whose members are all alone here, with its rows; else None."""
        members = [
            [self.alone(side, name) for name in names]
            for side, names in enumerate((told.npu, told.bench))
        ]
        npu, bench = ([one for one in side if one is not None] for side in members)
        if len(npu) < len(told.npu) or len(bench) < len(told.bench):
            return None
        rows: list[tuple[int, int]] = []
        for own, other in told.rows:
            row, other_row = self._row(0, *own), self._row(1, *other)
            if row is None or other_row is None:
                return None
            rows.append((row, other_row))
        return Group(told.operation, tuple(npu), tuple(bench), tuple(rows), told.certainty)

    def _row(self, side: int, name: str, ordinal: int) -> int | None:
        table, node = self.sides[side].table, self._by_name[side].get(name)
        if node is None:
            return None
        row = int(np.searchsorted(table.node, node)) + ordinal
        return row if row < len(table) and table.node[row] == node else None


def _shifted(tree: Tree, there: Mapping[tuple[str, int], int]) -> set[str]:
    """Stems that are not called as often as there, be it forward or backward."""
    here = Counter((name.stem, int(name.direction)) for name in tree.parsed)
    return {key[0] for key in here.keys() | there.keys() if here[key] != there.get(key, 0)}


def _still(likely: Likely, partner: Int, back: Int) -> Likely:
    """What stands of candidates once some have a partner."""
    stands = (partner[likely.node] < 0) & (back[likely.candidate] < 0)
    return Likely(likely.node[stands], likely.candidate[stands], likely.likelihood[stands])
