"""Modules that hand on what they are given: identities, and dropout that drops nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.operators import maybe_hands_on, numbers_of
from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.align.evidence.trust import levels
from msprobe_builder.dump.names import Kind

Int = NDArray[np.int64]


def hands_on(side: Traits, operators: dict[str, int]) -> Int:
    """Of each node: 1 where a module puts out what it takes in, 0 where not.

    -1 where that is unknown, and for calls. ``operators`` are the names behind the ids.

    It does not where it has weights or makes calls that change a tensor, and its statistics
    differ; without statistics it does where it has no weights and makes no call, though the dump
    has calls.
    """
    forms = numbers_of(operators, maybe_hands_on)
    modules = np.flatnonzero(side.forward & (side.outline.kind == Kind.MODULE))
    result = np.full(len(side), -1, dtype=np.int64)
    tensors = side.inputs, side.outputs
    simple = (tensors[0].count[modules] == 1) & (tensors[1].count[modules] == 1)
    weights = side.parameters_below[1, modules] > 0
    known = simple & ~np.isnan(tensors[0].values[0, modules] + tensors[1].values[0, modules])
    equal = known & (levels(*tensors, modules, modules) == 2)
    work = np.cumsum(np.r_[0, (side.operator >= 0) & ~np.isin(side.operator, forms)])
    calls = work[side.outline.tree.subtree_end[modules] + 1] - work[modules + 1]
    nothing = (
        ~known & ~weights & (side.outline.tree.subtree_end[modules] == modules) & (work[-1] > 0)
    )
    nothing &= tensors[0].numel[modules] == tensors[1].numel[modules]
    told = np.where(equal | nothing, 1, np.where((calls > 0) | weights, 0, -1))
    result[modules] = np.where(simple, told, -1)
    return result
