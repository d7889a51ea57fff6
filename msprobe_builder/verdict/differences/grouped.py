"""Calls that do together what calls of the other side do: judged by what goes in and comes out.

What happens between two calls of a group has no counterpart, so nothing can be said of it; that one
side makes such a call is no news either.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.graph.calls import Calls, carries
from msprobe_builder.match.matching import Group
from msprobe_builder.metrics.groups import GroupResults

Int = NDArray[np.int64]


@dataclass(frozen=True)
class Grouped:
    """The number of the group of each node of both sides, -1 without."""

    groups: tuple[Group, ...]
    npu: Int
    bench: Int

    def of(self, node: int) -> Group | None:
        """The group of an npu node."""
        number = int(self.npu[node])
        return self.groups[number] if number >= 0 else None


def grouped_of(npu: Calls, bench: Calls, results: GroupResults | None) -> Grouped:
    """The groups whose edges were compared.

    A group that merely hands on what it gets is left out, unless both sides make the same calls:
    numbers at other places have equal statistics, so that its edges do not tell whether both sides
    arrange them alike.
    """
    groups = () if results is None else results.groups
    of_debug, of_reference = (np.full(len(side.stem), -1, dtype=np.int64) for side in (npu, bench))
    if results is not None:
        hands_on, other_hands_on = carries(npu), carries(bench)
        for number in np.unique(results.owner).tolist():
            debug, reference = list(groups[number].npu), list(groups[number].bench)
            is_moved = hands_on[debug].all() and other_hands_on[reference].all()
            if not is_moved or _operators(npu, debug) == _operators(bench, reference):
                of_debug[debug], of_reference[reference] = number, number
    return Grouped(groups, of_debug, of_reference)


def _operators(calls: Calls, nodes: list[int]) -> list[str]:
    return [calls.operators[int(calls.stem[node])].name for node in nodes]
