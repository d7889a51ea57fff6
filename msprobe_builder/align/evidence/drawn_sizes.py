"""Sizes that the data have drawn, such as how many tokens a router sends to an expert.

With other data or weights they are others, and what is equal then is so by chance.
"""

from __future__ import annotations

from dataclasses import replace
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.flow import Flow, inputs_of, outputs_of
from msprobe_builder.align.evidence.operators import numbers_of
from msprobe_builder.align.evidence.traits import Tensors, Traits, summed
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.match.hashing import mixed
from msprobe_builder.operators.operator import Kind
from msprobe_builder.operators.questions import one_of

Int = NDArray[np.int64]
Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

_DRAWING = one_of("nonzero", "where", "masked_select", "argwhere")


def without_drawn_sizes(
    sides: tuple[Traits, Traits],
    flows: tuple[Flow, Flow],
    texts: Texts,
    operators: dict[str, int],
) -> tuple[Traits, Traits]:
    """The sides with such sizes left open, in what was drawn and in what comes of it.

    Where both have drawn the same, one after the other, their sizes tell.
    """
    numbers = numbers_of(operators, _DRAWING)
    drawing = [np.isin(one.operator, numbers) & (one.inputs.count == 1) for one in sides]
    put_out = (_put_out(*both, texts) for both in zip(flows, drawing, strict=True))
    few, many = sorted(put_out, key=len)
    rest = iter(many)
    if all(one in rest for one in few):
        return sides
    debug, reference = (
        _opened(side, flow, texts, operators, calls)
        for side, flow, calls in zip(sides, flows, drawing, strict=True)
    )
    return debug, reference


def _put_out(flow: Flow, calls: Bool, texts: Texts) -> list[list[int]]:
    """The sizes of what some calls put out; one author leaves out what is empty."""
    nodes = np.flatnonzero(calls & flow.is_leaf).tolist()
    rows = [row for node in nodes for row in outputs_of(flow, node)[:1]]
    sizes = [_sizes(texts, int(flow.table.shape_id[row])) for row in rows]
    return [one for one in sizes if 0 not in one]


def _opened(
    side: Traits, flow: Flow, texts: Texts, operators: dict[str, int], drawing: Bool
) -> Traits:
    table = flow.table
    if not drawing.any():
        return side
    picks = numbers_of(operators, lambda one: one.kind in (Kind.SLICE, Kind.PICK))
    picking = set(np.flatnonzero(np.isin(side.operator, picks)).tolist())
    drawn: dict[int, set[int]] = {}  # sizes of tensors, by key
    for node in np.flatnonzero(flow.is_leaf).tolist():
        given = [drawn.get(int(flow.key[row]), set()) for row in inputs_of(flow, node)]
        # What is drawn is put back into a tensor of the size of all.
        sizes_given = set().union(*given if node in picking else given[:1])
        for row in outputs_of(flow, node):
            sizes = set(_sizes(texts, int(table.shape_id[row])))
            sizes = sizes if drawing[node] else sizes & sizes_given
            if sizes and flow.key[row]:
                drawn[int(flow.key[row])] = sizes
    keys, numel = mixed(table.shape_id).astype(np.int64) >> 8, table.numel.copy()
    for row in np.flatnonzero(np.isin(flow.key, list(drawn))).tolist():
        those, own = drawn[int(flow.key[row])], _sizes(texts, int(table.shape_id[row]))
        known = [0 if one in those else one for one in own]
        keys[row] = crc32(str(known).encode())
        numel[row] = np.prod([one for one in known if one])
    return replace(
        side,
        inputs=_with_sizes(side.inputs, table, Section.INPUT, keys, numel),
        outputs=_with_sizes(side.outputs, table, Section.OUTPUT, keys, numel),
    )


def _with_sizes(
    tensors: Tensors, table: ParameterTable, section: Section, keys: Int, numel: Float
) -> Tensors:
    rows = np.flatnonzero((table.section == section) & table.is_tensor)
    node, nodes = table.node[rows], len(tensors.count)
    size = np.bincount(node, weights=np.nan_to_num(numel[rows]), minlength=nodes)
    shapes = summed(node, keys[rows], nodes)
    return replace(tensors, shapes=shapes, numel=size.astype(np.float64))


def _sizes(texts: Texts, shape: int) -> list[int]:
    shown = texts.values[shape] if shape >= 0 else ""
    return [int(one) for one in shown.strip("[]").split(", ") if one.isdigit()]
