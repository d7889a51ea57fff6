"""The default rule: same name, same ancestors, same number, type and shape of parameters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction
from msprobe_builder.graph.calls import Calls
from msprobe_builder.match.outline import Outline, levels
from msprobe_builder.match.signature import differing, equal_counts

Int = NDArray[np.int64]


def namesakes(npu: Outline, bench: Outline) -> Int:
    """The bench node of the same name, -1 without."""
    if npu.tree is bench.tree:
        return np.arange(len(npu))
    numbers: dict[str, int] = {}
    wanted, keys = _name_keys(npu.tree.calls, numbers), _name_keys(bench.tree.calls, numbers)
    order = np.argsort(keys, kind="stable")
    place = np.searchsorted(keys, wanted, "right", sorter=order) - 1  # the last of several
    node = order[np.maximum(place, 0)]
    return np.where(keys[node] == wanted, node, -1)


def _name_keys(calls: Calls, numbers: dict[str, int]) -> Int:
    """Numbers that are equal where names are, of which making each would take longer."""
    stem = calls.of_stems(lambda one: numbers.setdefault(one, len(numbers)))
    called = calls.direction != Direction.NONE  # others have but their stem
    kind, call = calls.kind * called, calls.call * called
    return np.asarray(((stem << 2 | kind) << 32 | call) << 2 | calls.direction)


def match_exact(npu: Outline, bench: Outline, namesake: Int, fixed: Int) -> Int:
    """Partner of each npu node by the default rule, around the matches that are fixed.

    Below a fixed match the two nodes count as ancestors of equal names.
    """
    partner = available(namesake, fixed, len(bench))
    i = np.flatnonzero((partner >= 0) & (fixed < 0))
    i = i[same_path(npu, bench, namesake, fixed)[i]]
    i = i[equal_counts(npu.signatures, bench.signatures, i, namesake[i])]
    type_differs, shape_differs = differing(npu.signatures, bench.signatures, i, namesake[i])
    i = i[~(type_differs | shape_differs)]
    result = fixed.copy()
    result[i] = namesake[i]
    return result


def available(wanted: Int, fixed: Int, size: int) -> Int:
    """``wanted`` partners of npu nodes, those lost to a fixed match replaced by it or by -1."""
    taken = np.zeros(size + 1, dtype=bool)
    taken[fixed[fixed >= 0]] = True
    return np.where(fixed >= 0, fixed, np.where(taken[wanted], -1, wanted))


def same_path(own: Outline, other: Outline, namesake: Int, fixed: Int) -> NDArray[np.bool_]:
    """Whether all ancestors of a node and of its namesake have equal names or are fixed."""
    agreed = np.where(fixed >= 0, fixed, namesake)
    parents_agree = np.zeros(len(own), dtype=bool)
    known = np.flatnonzero(namesake >= 0)
    above = agreed[own.tree.parent[known]]
    parents_agree[known] = (above >= 0) & (above == other.tree.parent[namesake[known]])
    parents_agree[0] = True
    same: NDArray[np.bool_] = parents_agree.copy()
    is_fixed = fixed >= 0
    for level in levels(own.tree.depth, np.arange(1, len(own))):
        above_level = own.tree.parent[level]
        same[level] &= same[above_level] | is_fixed[above_level]
    return same
