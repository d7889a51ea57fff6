"""Modules that only pass through: DDP, FSDP, ``torch.compile``, PEFT and their like.

Such a module has one child that does all the work: it makes no call of its own but casts, and
holds no parameters. What it is called does not matter.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.operators import CASTS
from msprobe_builder.align.traits import Traits
from msprobe_builder.dump.names import Kind

Int = NDArray[np.int64]


def cores(side: Traits, operators: dict[str, int]) -> Int:
    """What each forward module comes down to: itself unless it only passes through."""
    tree, kind = side.outline.tree, side.outline.kind
    nodes = np.arange(len(tree))
    is_module = side.forward & (kind == Kind.MODULE)
    casts = [number for name, number in operators.items() if name in CASTS]
    is_work = side.forward & (kind == Kind.API) & ~np.isin(side.operator, casts)
    parent = np.maximum(tree.parent, 0)
    modules = np.bincount(parent[is_module], minlength=len(tree))
    work = np.bincount(parent[is_work], minlength=len(tree))
    only = np.full(len(tree), -1, dtype=np.int64)
    only[parent[is_module]] = nodes[is_module]
    passes = is_module & (modules == 1) & (work == 0) & (side.parameters.count == 0)
    passes &= _same_size(side, only)
    result = nodes.copy()
    for node in np.flatnonzero(passes)[::-1].tolist():  # the deepest first
        result[node] = result[only[node]]
    return result


def _same_size(side: Traits, child: Int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether what comes out is of the child's size, as far as that is known."""
    out, inner = side.outputs.numel, side.outputs.numel[child]
    return np.asarray((out == inner) | (side.outputs.count == 0) | (side.outputs.count[child] == 0))
