"""Modules that only pass through: DDP, FSDP, ``torch.compile``, PEFT and their like.

Such a module has one child that does all the work: it makes no call of its own but casts, and
holds no parameters. What it is called does not matter.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.operators import casts, numbers_of
from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.base.codes import Evidence
from msprobe_builder.dump.names import Kind

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


def cores(side: Traits, operators: dict[str, int]) -> Int:
    """What each forward module comes down to: itself unless it only passes through."""
    tree, kind = side.outline.tree, side.outline.kind
    nodes = np.arange(len(tree))
    is_module = side.forward & (kind == Kind.MODULE)
    casting = numbers_of(operators, casts)
    is_work = side.forward & (kind == Kind.API) & ~np.isin(side.operator, casting)
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


def _same_size(side: Traits, child: Int) -> Bool:
    """Whether what comes out is of the child's size, as far as that is known."""
    out, inner = side.outputs.numel, side.outputs.numel[child]
    return np.asarray((out == inner) | (side.outputs.count == 0) | (side.outputs.count[child] == 0))


def transparent(side: Traits, partner: Int, core: Int) -> Bool:
    """Modules without a partner that hold matched nodes, or only pass through."""
    tree = side.outline.tree
    sums = np.r_[0, np.cumsum((partner >= 0) & side.forward)]
    held = sums[tree.subtree_end + 1] - sums[:-1]
    modules = side.forward & (side.outline.kind == Kind.MODULE) & (partner < 0)
    return np.asarray(modules & ((held > 0) | (core != np.arange(len(core)))))


def pair_wrappers(pairs: Pairs, core: Int, other_core: Int) -> None:
    """Match modules that pass through to a pair, level by level, as far as both sides have them.

    Where one side has more levels those are matched that alone take in and put out the same.
    """
    npu, bench = pairs.npu, pairs.bench
    passes = _passes(npu, core) & _passes(bench, other_core)[pairs.partner]
    for node in np.flatnonzero((pairs.partner > 0) & passes).tolist():
        chain = _around(npu, core, node)
        other = int(pairs.partner[node])
        other_chain = _around(bench, other_core, other)
        if len(chain) != len(other_chain):
            chain, other_chain = _of_one_shape(npu, bench, chain, other_chain)
        for debug, reference in zip(chain, other_chain, strict=True):
            pairs.add(debug, reference, Evidence.WRAPPER, 2.0)


def _passes(side: Traits, core: Int) -> Bool:
    """Which modules another one only passes through to."""
    nodes = np.arange(len(core))
    above = np.maximum(side.outline.tree.parent, 0)
    return np.asarray((core == nodes) & (above > 0) & (core[above] == nodes))


def _around(side: Traits, core: Int, node: int) -> list[int]:
    """The modules around a module that only pass through to it, the innermost first."""
    result = []
    above = int(side.outline.tree.parent[node])
    while above > 0 and core[above] == node:
        result.append(above)
        above = int(side.outline.tree.parent[above])
    return result


def _of_one_shape(
    npu: Traits, bench: Traits, chain: list[int], other_chain: list[int]
) -> tuple[list[int], list[int]]:
    """The modules of both chains that alone take in and put out tensors of these shapes."""
    shapes, other_shapes = (
        [(int(side.inputs.shapes[one]), int(side.outputs.shapes[one])) for one in modules]
        for side, modules in ((npu, chain), (bench, other_chain))
    )
    found = [
        (one, other_chain[other_shapes.index(shape)])
        for one, shape in zip(chain, shapes, strict=True)
        if shapes.count(shape) == other_shapes.count(shape) == 1
    ]
    return [one for one, _ in found], [other for _, other in found]
