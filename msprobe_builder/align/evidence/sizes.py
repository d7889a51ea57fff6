"""Sizes of two sides, and where two nodes are given tensors of other numbers or sizes."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.traits import Traits

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_LEAST_SAME = 0.5  # of what products put out, as large on both sides


def given_other_sizes(npu: Traits, bench: Traits, a: Int, b: Int) -> Bool:
    """Where two modules with weights take in one tensor each, which are of other sizes."""
    alone = [
        (side.parameters.count[nodes] > 0) & (side.inputs.count[nodes] == 1)
        for side, nodes in ((npu, a), (bench, b))
    ]
    differs = npu.inputs.numel[a][:, None] != bench.inputs.numel[b]
    return np.asarray(differs & alone[0][:, None] & alone[1])


def takes_more(npu: Traits, bench: Traits, a: Int, b: Int) -> Bool:
    """Where one takes in a tensor more than the other, which is no number."""
    debug, reference = npu.inputs, bench.inputs
    more = debug.count[a][:, None] - reference.count[b]
    elements = debug.numel[a][:, None] - reference.numel[b]
    return np.asarray((more * elements > 0) & (np.abs(elements) > np.abs(more)))


def other_form(npu: Traits, bench: Traits, a: Int, b: Int) -> Bool:
    """Where two calls give another form to one they do not share, or exchange other dimensions."""
    given = npu.inputs.shapes[a][:, None] == bench.inputs.shapes[b]
    out = npu.outputs.shapes[a][:, None] == bench.outputs.shapes[b]
    exchanges = (npu.inputs.ranks[a] == npu.outputs.ranks[a])[:, None]
    return np.asarray(~out & (~given | exchanges))


def same_shapes(npu: Traits, bench: Traits, products: Int) -> bool:
    """Whether what products put out has the same shapes, of what is as large on both sides.

    Without values calls are aligned by shapes, so that those that are aligned do not tell.
    """
    nodes = [np.flatnonzero(one.forward & np.isin(one.operator, products)) for one in (npu, bench)]
    equal, as_large = (
        (Counter(debug[nodes[0]].tolist()) & Counter(reference[nodes[1]].tolist())).total()
        for debug, reference in (
            (npu.outputs.shapes, bench.outputs.shapes),
            (npu.outputs.numel, bench.outputs.numel),
        )
    )
    return equal >= _LEAST_SAME * as_large
