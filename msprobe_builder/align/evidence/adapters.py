"""Adapters: a module around a layer that corrects what the layer puts out.

LoRA and its like keep a layer as it was and add to its result. What others work with is what the
module around it puts out: that is the counterpart of a layer into which the correction was merged.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.traits import Tensors, Traits
from msprobe_builder.align.evidence.trust import levels
from msprobe_builder.dump.names import Kind

Int = NDArray[np.int64]

_FACTORS = 2  # products by which weights of a low rank are applied
_MAIN = 0.5  # least share of the parameters that the layer has


def with_adapters(side: Traits, other: Traits, products: Int) -> Traits:
    """The side with each adapter seen as the layer inside of it, in all but what it puts out.

    The layer itself is seen without weights, so that these tell of one module. What more it
    holds must not be on the ``other`` side: a norm behind a layer has its counterpart there.
    """
    around, layer = _adapters(side, other, products)
    if not len(around):
        return side
    below = side.parameters_below.copy()
    below[:, around] = below[:, layer]
    histogram, content = side.below.copy(), side.content.copy()
    histogram[around], content[around] = histogram[layer], content[layer]
    return replace(
        side,
        parameters=_moved(side.parameters, layer, around),
        parameters_below=below,
        below=histogram,
        content=content,
    )


def _adapters(side: Traits, other: Traits, products: Int) -> tuple[Int, Int]:
    """Modules that hold one layer with most of their weights and more weights, and that layer.

    Both are given the same and put out tensors of one size. Among the rest are matrices of shapes
    that no module of the other side has; or weights that no module holds, which are multiplied.
    """
    outline, ends = side.outline, side.outline.tree.subtree_end
    weighted = side.forward & (outline.kind == Kind.MODULE) & (side.parameters.count > 0)
    layer = np.flatnonzero(weighted & (outline.host > 0))
    around = outline.host[layer]
    part, whole = side.parameters.numel[layer], side.parameters_below[1, around]
    fits = side.forward[around] & (part > _MAIN * whole)
    fits &= side.inputs.numel[layer] == side.inputs.numel[around]
    fits &= side.outputs.shapes[layer] == side.outputs.shapes[around]
    layer, around, part, whole = layer[fits], around[fits], part[fits], whole[fits]
    known = ~np.isnan(side.inputs.values[0, layer] + side.inputs.values[0, around])
    given = ~known | (levels(side.inputs, side.inputs, layer, around) == 2)
    there = np.isin(side.parameters.shapes, other.parameters.shapes[other.parameters.count > 0])
    own = (
        weighted & ~there & ~side.parameters.are_vectors(np.arange(len(side)))
    )  # no norm behind it
    more = np.r_[0, np.cumsum(own)]
    times = np.r_[0, np.cumsum(side.forward & np.isin(side.operator, products))]
    beside = times[ends[around] + 1] - times[around] - (times[ends[layer] + 1] - times[layer])
    given &= (more[ends[around] + 1] - more[around] > own[layer]) | (
        (part == whole) & (beside >= _FACTORS)
    )
    layer, around = layer[given], around[given]
    _, first, times = np.unique(around, return_index=True, return_counts=True)
    first = first[times == 1]
    return around[first], layer[first]


def _moved(tensors: Tensors, source: Int, target: Int) -> Tensors:
    """The columns with what one node has at another one, and nothing where it was."""
    columns = {
        name: getattr(tensors, name).copy()
        for name in ("count", "shapes", "ranks", "numel", "values", "checksum")
    }
    for name, column in columns.items():
        column[..., target] = column[..., source]
        column[..., source] = np.nan if name == "values" else 0
    return Tensors(**columns)
