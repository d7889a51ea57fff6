"""Calls that do together what calls of the other side do: judged by what goes in and comes out.

What happens between two calls of a group has no counterpart, so nothing can be said of it; that one
side makes such a call is no news either.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.match.matching import Group
from msprobe_builder.metrics.groups import GroupResults

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


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


def grouped_of(npu: int, bench: int, results: GroupResults | None) -> Grouped:
    """The groups whose edges were compared, of sides with so many nodes."""
    groups = () if results is None else results.groups
    own, other = np.full(npu, -1, dtype=np.int64), np.full(bench, -1, dtype=np.int64)
    if results is not None:
        for number in np.unique(results.owner).tolist():
            own[list(groups[number].npu)] = number
            other[list(groups[number].bench)] = number
    return Grouped(groups, own, other)
