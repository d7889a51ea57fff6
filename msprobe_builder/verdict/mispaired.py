"""Pairs of tensors that do not belong together, as calls of two implementations may be matched.

A tensor that is right wherever it goes was not wrong where it came from: there it was compared with
another one. And a sum does not mind which of its operands comes first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.tree import Tree
from msprobe_builder.verdict.findings import SUSPICIOUS
from msprobe_builder.verdict.operators import operator_of

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_COMMUTATIVE = frozenset({"add", "radd", "mul", "rmul", "maximum", "minimum"})
_ALIKE = 1e-3  # of two tensors that are one but for the order of operands


def mispaired(
    tree: Tree, table: ParameterTable, error: Float, floor: Float, producer: Int, informative: Bool
) -> Bool:
    """Rows of the npu table whose pairs say nothing.

    Of a call whose output is right where it is used these are all its rows, of a module's input
    that row alone.
    """
    off = error > SUSPICIOUS * floor
    used = np.flatnonzero((producer >= 0) & (table.section == Section.INPUT) & ~np.isnan(error))
    right, wrong = np.zeros(len(table), dtype=bool), np.zeros(len(table), dtype=bool)
    right[producer[used[~off[used] & informative[used]]]] = True
    wrong[producer[used[off[used]]]] = True
    cleared = off & right & ~wrong
    nodes = np.zeros(len(tree), dtype=bool)
    nodes[table.node[cleared & (table.section == Section.OUTPUT)]] = True
    is_call = np.array([name.kind is Kind.API for name in tree.parsed], dtype=bool)
    result = cleared | (nodes & is_call)[table.node]
    return np.asarray(result, dtype=bool)


def other_parameters(
    npu: ParameterTable, bench: ParameterTable, bench_of: Int, texts: Texts
) -> Bool:
    """Rows that are compared with one of another number of elements or another keyword."""
    rows = np.flatnonzero(bench_of >= 0)
    there = bench_of[rows]
    keyword = np.array([_is_keyword(text) for text in texts.values] + [False])
    own, other = npu.name_id[rows], bench.name_id[there]
    wrong = (npu.numel[rows] != bench.numel[there]) & (npu.numel[rows] == npu.numel[rows])
    wrong |= (own != other) & keyword[own] & keyword[other] & (npu.section[rows] == Section.INPUT)
    result = np.zeros(len(npu), dtype=bool)
    result[rows[wrong]] = True
    return result


def _is_keyword(name: str) -> bool:
    section, _, rest = name.partition(".")
    return section == "input" and bool(rest) and not rest[0].isdigit()


def swapped_operands(
    tree: Tree, npu: ParameterTable, bench: ParameterTable, bench_of: Int, off: Bool
) -> Bool:
    """Rows of two operands that are each other's partner; ``off`` are rows that differ."""
    result = np.zeros(len(npu), dtype=bool)
    first = np.flatnonzero(off[:-1] & off[1:] & (npu.node[:-1] == npu.node[1:]))
    inputs = (npu.section[first] == Section.INPUT) & (npu.section[first + 1] == Section.INPUT)
    first = first[inputs & (npu.position[first] == 0)]
    for row in first.tolist():
        if operator_of(tree.parsed[int(npu.node[row])].stem) in _COMMUTATIVE:
            here, there = bench_of[row], bench_of[row + 1]
            own, other = npu.statistics[:, [row, row + 1]], bench.statistics[:, [there, here]]
            with np.errstate(all="ignore"):
                size = np.fmax(np.abs(other[:2]).max(axis=0), 1e-30)
                change = np.abs(own - other)[[0, 1, 3]] / np.stack([size, size, other[3]])
            if np.nan_to_num(change, nan=1.0).max() < _ALIKE:
                result[[row, row + 1]] = True
    return result
