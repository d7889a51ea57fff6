"""Outputs whose bits differ though their statistics do not, as checksums tell.

Rounding does that, but not in runs that otherwise agree to the last bit: there elements stand at
other places. What follows shows it; the call that began it is to blame.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.calls import carries
from msprobe_builder.graph.part import Part
from msprobe_builder.metrics.comparison import Comparisons

Bool = NDArray[np.bool_]

_SEVERAL = 4  # calls from which a habit can be told
_MOST = 0.25  # behind the first fault nothing is equal any more, so few calls are left


def altered_calls(part: Part, comparisons: Comparisons, altered: Bool) -> frozenset[int]:
    """Forward calls that alone make other bits of equal ones; ``altered`` by pair.

    None where calls do so as a habit, as on another device.
    """
    if comparisons.md5_equal is None or not altered.any():
        return frozenset()
    table, calls = part.table, part.calls
    end = part.tree.subtree_end
    leaf = end == np.arange(len(part.tree))
    rows, equal = comparisons.pairs.npu, comparisons.md5_equal
    nodes, put_out = table.node[rows], table.section[rows] == Section.OUTPUT
    given, differs, begun = (np.zeros(len(part.tree), dtype=bool) for _ in range(3))
    tensors = table.is_tensor[rows]
    given[nodes[tensors & ~put_out & (equal == 1)]] = True
    given[nodes[tensors & ~put_out & (equal != 1)]] = False
    differs[nodes[tensors & put_out & (equal == 0)]] = True
    begun[nodes[tensors & put_out & altered]] = True
    exact = given & (calls.direction == Direction.FORWARD) & (calls.is_api | calls.is_module)
    computing = exact & (calls.is_api | leaf) & ~carries(calls)
    if np.count_nonzero(computing) < _SEVERAL or float(differs[computing].mean()) > _MOST:
        return frozenset()
    nodes = np.flatnonzero(exact & begun)
    following = np.r_[nodes[1:], len(part.tree)]
    return frozenset(nodes[following > end[nodes]].tolist())  # the innermost
