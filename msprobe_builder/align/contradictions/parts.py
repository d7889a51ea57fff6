"""Pairs of calls of which one does only a part of the other's work.

A norm can be folded into the convolution before it: the two convolutions are alike in all but what
they put out, and no counterparts. One does what the other does together with the norm.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.flow import is_leaf
from msprobe_builder.align.evidence.operators import forms, is_linear_map, numbers_of
from msprobe_builder.align.evidence.tolerances import EQUAL
from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.dump.names import Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.operators.questions import one_of

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_NORM = 3


def take_back_parts(
    pairs: Pairs, table: ParameterTable, other: ParameterTable, operators: dict[str, int]
) -> None:
    """Leave grey pairs of linear maps that are given the same, though one does more than the other.

    Only such maps can take in what stands behind them. What one puts out a later call of the other
    side puts out, too, and what that side's member of the pair puts out is put out nowhere here. A
    fault shows otherwise: it puts out what neither side does without it. What only has its bias
    added by a call of its own stays.

    Where no values tell, a bias does that one side alone has, if a norm without a partner stands
    behind the other.
    """
    nodes = np.flatnonzero((pairs.evidence > 0) & (pairs.partner > 0) & pairs.npu.forward)
    nodes = nodes[pairs.npu.outline.kind[nodes] != Kind.COLLECTION]
    maps = numbers_of(operators, is_linear_map)
    has_weights = pairs.npu.parameters_below[1, nodes] > 0
    nodes = nodes[np.isin(pairs.npu.operator[nodes], maps) | has_weights]
    if not pairs.known.trust.equal:
        for node in nodes[_has_taken_in_a_norm(pairs, nodes, operators)].tolist():
            pairs.take_back(node)
        return
    both = (pairs.npu, table), (pairs.bench, other)
    given = [_first_rows(one, Section.INPUT, len(side)) for side, one in both]
    out = [_first_rows(one, Section.OUTPUT, len(side)) for side, one in both]
    adding = numbers_of(operators, one_of("add", "bias_add")).tolist()
    showing = numbers_of(operators, forms)
    sides = [_Side(*one, rows, adding, showing) for one, rows in zip(both, out, strict=True)]
    partner = pairs.partner[nodes]
    known = (given[0][nodes] >= 0) & (given[1][partner] >= 0)
    known &= sides[0].is_known[nodes] & sides[1].is_known[partner]
    nodes, partner = nodes[known], partner[known]
    same = _equal(table, other, given[0][nodes], given[1][partner])
    same &= ~_equal(table, other, out[0][nodes], out[1][partner])
    for node, its in zip(nodes[same].tolist(), partner[same].tolist(), strict=True):
        if _is_part(sides[0], sides[1], node, its) or _is_part(sides[1], sides[0], its, node):
            pairs.take_back(node)


def _has_taken_in_a_norm(pairs: Pairs, nodes: Int, operators: dict[str, int]) -> Bool:
    """Where one of two has a bias, and the other one a norm behind it that has no partner."""
    norms = np.array([number for name, number in operators.items() if "norm" in name], np.int64)
    partner = pairs.partner[nodes]
    less = _has_fewer(pairs.npu, nodes, pairs.bench, partner)
    more = _has_fewer(pairs.bench, partner, pairs.npu, nodes)
    behind = _norm_behind(pairs.npu, nodes, pairs.partner, norms)
    other_behind = _norm_behind(pairs.bench, partner, pairs.back, norms)
    return np.asarray((less & behind & ~other_behind) | (more & other_behind & ~behind))


def _has_fewer(side: Traits, a: Int, other: Traits, b: Int) -> Bool:
    """Whether nodes take in one tensor less than their partners, modules have one weight less."""
    is_call = side.operator[a] >= 0
    count, its = (
        np.where(is_call, one.inputs.count[node], one.parameters.count[node])
        for one, node in ((side, a), (other, b))
    )
    return np.asarray((count > 0) & (count == its - 1))


def _norm_behind(side: Traits, nodes: Int, partner: Int, norms: Int) -> Bool:
    """Whether the next call or module behind each node is a norm that has no partner."""
    leaves = np.flatnonzero(is_leaf(side))
    place = np.searchsorted(leaves, side.outline.tree.subtree_end[nodes], side="right")
    there = place < len(leaves)
    following = leaves[np.minimum(place, len(leaves) - 1)]
    is_norm = np.isin(side.operator[following], norms)
    modules = np.flatnonzero(there & (side.operator[following] < 0))
    for one in modules.tolist():
        name = side.outline.tree.parsed[following[one]].stem.rpartition(".")[2]
        is_norm[one] = "norm" in name.lower()
    return np.asarray(there & is_norm & (partner[following] < 0))


class _Side:
    """The first outputs of a side's forward nodes, by their norm."""

    def __init__(
        self, side: Traits, table: ParameterTable, rows: Int, adding: list[int], showing: Int
    ) -> None:
        self.table, self.rows, self.step = table, rows, side.outline.tree.micro_step
        nodes = np.flatnonzero(side.forward & (rows >= 0))
        norm = table.statistics[_NORM, rows[nodes]]
        nodes = nodes[np.isfinite(norm) & (norm > 0) & (table.numel[rows[nodes]] > 1)]
        self.adds = np.isin(side.operator, adding)
        self.shows = np.isin(side.operator, showing)  # a tensor that it is given, in another form
        self.is_known = np.zeros(len(side), dtype=bool)
        self.is_known[nodes] = True
        norm = table.statistics[_NORM, rows[nodes]]
        self.nodes, self.norms = nodes[np.argsort(norm, kind="stable")], np.sort(norm)

    def putting_out(self, table: ParameterTable, row: int, step: int) -> Int:
        """The nodes of a micro-step that put out the tensor of a row of the other side."""
        norm = float(table.statistics[_NORM, row])
        near = norm * (1 - 2 * EQUAL), norm * (1 + 2 * EQUAL)
        found = self.nodes[slice(*np.searchsorted(self.norms, near))]
        found = found[self.step[found] == step]
        rows = np.full(len(found), row, dtype=np.int64)
        return np.sort(found[_equal(self.table, table, self.rows[found], rows)])


def _is_part(own: _Side, other: _Side, node: int, partner: int) -> bool:
    """Whether a later call of a node's side puts out what its partner does, and none its own."""
    step, its = int(own.step[node]), int(other.step[partner])
    later = own.putting_out(other.table, int(other.rows[partner]), step)
    later = later[(later > node) & ~own.shows[later]]
    if not len(later) or own.adds[later[0]]:
        return False
    return not len(other.putting_out(own.table, int(own.rows[node]), its))


def _first_rows(table: ParameterTable, section: Section, nodes: int) -> Int:
    """The first tensor of a section of each node, -1 without."""
    rows = np.flatnonzero((table.section == section) & table.is_tensor)[::-1]
    result = np.full(nodes, -1, dtype=np.int64)
    result[table.node[rows]] = rows
    return result


def _equal(table: ParameterTable, other: ParameterTable, a: Int, b: Int) -> Bool:
    """Whether the statistics of rows agree, pair by pair, in any shape."""
    x, y = table.statistics[:, a], other.statistics[:, b]
    with np.errstate(invalid="ignore", over="ignore"):
        scale = np.maximum(np.abs(x), np.abs(y))
        scale[:_NORM] = scale[:2].max(axis=0, initial=0.0)
        apart = ~(np.abs(x - y) <= EQUAL * scale)
    return np.asarray((table.numel[a] == other.numel[b]) & ~apart.any(axis=0))
