"""Outputs whose bits differ from the reference's, as checksums tell.

Rounding does that, but not in runs that otherwise agree to the last bit. There the call that began
it is to blame: where statistics are the same elements stand at other places, and what follows shows
it; where checksums alone were recorded nobody knows by how much it is off.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.calls import carries, operations
from msprobe_builder.graph.part import Part
from msprobe_builder.metrics.comparison import Comparisons
from msprobe_builder.verdict.differences.operators import Family, families

Bool = NDArray[np.bool_]

_SEVERAL = 4  # calls from which a habit can be told
_MOST = 0.25  # behind the first fault nothing is equal any more, so few calls are left


@dataclass(frozen=True)
class _Calls:
    """By node: whether it is ``given`` equal bits alone, and whether it puts out others."""

    given: Bool
    differs: Bool


def _calls(part: Part, comparisons: Comparisons) -> _Calls | None:
    equal = comparisons.md5_equal
    if equal is None or not (equal >= 0).any():
        return None
    table, calls = part.table, part.calls
    rows = comparisons.pairs.npu
    nodes, put_out = table.node[rows], table.section[rows] == Section.OUTPUT
    given, differs = (np.zeros(len(part.tree), dtype=bool) for _ in range(2))
    tensors = table.is_tensor[rows]
    given[nodes[tensors & ~put_out & (equal == 1)]] = True
    given[nodes[tensors & ~put_out & (equal != 1)]] = False
    differs[nodes[tensors & put_out & (equal == 0)]] = True
    return _Calls(given & (calls.is_api | calls.is_module), differs)


def differ_by_habit(part: Part, comparisons: Comparisons) -> bool:
    """Whether forward calls that are given equal bits put out others, as on another device."""
    found = _calls(part, comparisons)
    return found is not None and _by_habit(part, found, if_few=False)


def _by_habit(part: Part, found: _Calls, *, if_few: bool) -> bool:
    """The same; ``if_few`` where there are too few calls to tell a habit."""
    calls = part.calls
    leaf = part.tree.subtree_end == np.arange(len(part.tree))
    computing = found.given & (calls.direction == Direction.FORWARD) & ~carries(calls)
    computing &= calls.is_api | leaf
    if np.count_nonzero(computing) < _SEVERAL:
        return if_few
    return bool(found.differs[computing].mean() > _MOST)


def altered_calls(part: Part, comparisons: Comparisons, altered: Bool) -> frozenset[int]:
    """Forward calls that alone make other bits of equal ones; ``altered`` by pair.

    None where calls do so as a habit, as on another device. Sums and products round in another
    order there, while what works element by element does not: each kind is held to its own habit.
    """
    found = _calls(part, comparisons) if altered.any() else None
    if found is None or _by_habit(part, found, if_few=True):
        return frozenset()
    table, rows = part.table, comparisons.pairs.npu
    put_out = table.section[rows] == Section.OUTPUT
    begun = np.zeros(len(part.tree), dtype=bool)
    begun[table.node[rows[table.is_tensor[rows] & put_out & altered]]] = True
    exact = found.given & (part.calls.direction == Direction.FORWARD)
    nodes = np.flatnonzero(exact & begun)
    following = np.r_[nodes[1:], len(part.tree)]
    innermost = nodes[following > part.tree.subtree_end[nodes]]
    return frozenset(innermost[~_of_other_kernels(part, found)[innermost]].tolist())


def _of_other_kernels(part: Part, found: _Calls) -> Bool:
    """Calls of families that add up of which most put out other bits of equal ones."""
    family = families(part.calls)
    computing = found.given & (part.calls.direction == Direction.FORWARD)
    result = np.zeros(len(family), dtype=bool)
    for one in (Family.PRODUCT, Family.SUM, Family.CURVE):
        of_family = computing & (family == one)
        if of_family.any() and found.differs[of_family].mean() > _MOST:
            result |= of_family
    return result


def exact_elsewhere(part: Part, comparisons: Comparisons) -> Bool:
    """Nodes whose operator or class puts out equal bits for equal ones at most other places.

    What it puts out otherwise at one place is no rounding of its kernel.
    """
    found = _calls(part, comparisons)
    if found is None:
        return np.zeros(len(part.tree), dtype=bool)
    kind = operations(part.calls)
    size = int(kind.max(initial=0)) + 1
    same, other = (
        np.bincount(kind[found.given & one], minlength=size)
        for one in (~found.differs, found.differs)
    )
    return np.asarray((same >= np.fmax(2, 2 * other))[kind])
