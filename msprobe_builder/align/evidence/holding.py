"""Which modules hold the counterpart of another one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.traits import Traits

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


def holds(side: Traits, other: Traits, a: Int, b: Int) -> Bool:
    """Where a module holds one with just as many parameters as the other, and more beside it.

    Then that one is the counterpart: one side has a module around it that the other lacks. What
    has parameters of its own is no counterpart of what only holds a module that has them, and what
    makes calls beside one that makes just those of the other is no counterpart of that.
    """
    result = np.zeros((len(a), len(b)), dtype=bool)
    below, sizes = side.parameters_below[1], other.parameters_below[1, b]
    own = other.parameters.count[b] > 0
    if not (sizes > 0).any():
        return result
    for place in np.flatnonzero(below[a] > side.parameters.numel[a]).tolist():
        node = int(a[place])
        inside = below[node + 1 : int(side.outline.tree.subtree_end[node]) + 1]
        more = (sizes < below[node]) | (own & (side.parameters.count[node] == 0))
        result[place] = (sizes > 0) & more & np.isin(sizes, inside)
        content = side.content[node + 1 : int(side.outline.tree.subtree_end[node]) + 1]
        works_more = (sizes > 0) & (other.content[b] != side.content[node])
        result[place] |= works_more & np.isin(other.content[b], content)
    return result
