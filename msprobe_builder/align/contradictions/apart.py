"""Pairs of modules of which one does something else, whatever is alike in them.

A layer and its attention begin alike and hold alike; a router and the linear inside of one have
the same weights. What they hold, and what they put out, goes to different places.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.scores import MORE
from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.align.pairing.anchors import leaves
from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.dump.names import Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.parameter_table import ParameterTable

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_TOGETHER = 2 / 3  # least share of what a module holds whose partners its partner holds
_FEW = 2  # that go elsewhere without a contradiction: a norm and an addition at the ends


def take_back_apart(pairs: Pairs, table: ParameterTable, other: ParameterTable) -> None:
    """Leave grey automatic pairs of modules whose content, or results, belong to others."""
    is_module = pairs.npu.forward & (pairs.npu.outline.kind == Kind.MODULE)
    nodes = np.flatnonzero((pairs.evidence > 0) & (pairs.partner > 0) & is_module)
    if not len(nodes):
        return
    partner = pairs.partner[nodes]
    apart = _torn(pairs.npu, pairs.partner, pairs.bench, nodes, partner)
    apart |= _torn(pairs.bench, pairs.back, pairs.npu, partner, nodes)
    apart |= _put_out_other_sizes(pairs, table, other, nodes, partner)
    for node in nodes[apart].tolist():
        pairs.take_back(node)


def _torn(side: Traits, partner: Int, other: Traits, modules: Int, others: Int) -> Bool:
    """Modules much of whose content has its partners outside the partner of the module."""
    held = np.concatenate([np.empty(0, np.int64), *leaves(side)])
    held = np.sort(held[partner[held] > 0])
    its, end = partner[held], other.outline.tree.subtree_end
    result = np.zeros(len(modules), dtype=bool)
    first = np.searchsorted(held, modules, side="right")
    last = np.searchsorted(held, side.outline.tree.subtree_end[modules], side="right")
    columns = (one.tolist() for one in (first, last, others))
    for place, (begin, stop, module) in enumerate(zip(*columns, strict=True)):
        inside = its[begin:stop]
        outside = int(((inside < module) | (inside > end[module])).sum())
        result[place] = outside > _FEW and outside > (1 - _TOGETHER) * len(inside)
    return result


def _put_out_other_sizes(
    pairs: Pairs, table: ParameterTable, other: ParameterTable, nodes: Int, partner: Int
) -> Bool:
    """Modules of which no two outputs are near in size, though the sizes of most calls agree."""
    result = np.zeros(len(nodes), dtype=bool)
    if not pairs.known.trust.same_sizes:
        return result
    differs = pairs.npu.outputs.numel[nodes] != pairs.bench.outputs.numel[partner]
    differs |= pairs.npu.outputs.count[nodes] != pairs.bench.outputs.count[partner]
    sizes, others = _sizes(table, nodes[differs]), _sizes(other, partner[differs])
    for place in np.flatnonzero(differs).tolist():
        debug, reference = sizes.get(int(nodes[place])), others.get(int(partner[place]))
        if debug and reference:
            result[place] = all(max(x, y) >= MORE * min(x, y) for x in debug for y in reference)
    return result


def _sizes(table: ParameterTable, nodes: Int) -> dict[int, list[float]]:
    """Numbers of elements of what nodes put out."""
    rows = np.flatnonzero((table.section == Section.OUTPUT) & table.is_tensor & (table.numel > 0))
    rows = rows[np.isin(table.node[rows], nodes)]
    result: dict[int, list[float]] = {}
    for node, size in zip(table.node[rows].tolist(), table.numel[rows].tolist(), strict=True):
        result.setdefault(node, []).append(size)
    return result
