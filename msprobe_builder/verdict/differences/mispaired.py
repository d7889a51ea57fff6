"""Pairs of tensors that do not belong together, as calls of two implementations may be matched.

A tensor that is right wherever it goes was not wrong where it came from: there it was compared with
another one. And a sum does not mind which of its operands comes first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.calls import Calls
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.part import Part
from msprobe_builder.operators import questions

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_ALIKE = 1e-3  # of two tensors that are one but for the order of operands


def other_places(npu: Part, bench: Part, partner: Int, off: Bool) -> Bool:
    """Rows of later arguments of calls of another name that differ: their order may be another."""
    table = npu.table
    numbers = {stem: number for number, stem in enumerate(npu.calls.stems)}
    known = bench.calls.of_stems(lambda stem: numbers.get(stem, -1))
    renamed = (partner >= 0) & npu.calls.is_api & (npu.calls.stem != known[partner])
    later = (table.section == Section.INPUT) & (table.position > 0)
    return np.asarray(off & later & renamed[table.node])


# One kernel on an accelerator, several calls elsewhere.


def inside_cells(npu: Part) -> Bool:
    """Gradients of a recurrent cell that depend on what its kernel is made of.

    The hidden state is made of the cell state: where that is a call of its own the gradient of the
    cell state holds its share, where one kernel makes both it does not. What the call sends back
    is that of its last node, whichever that is.
    """
    table, calls = npu.table, npu.calls
    is_back = calls.direction == Direction.BACKWARD
    is_cell = calls.are(lambda one: "cell" in one.traits)
    of_module = calls.do(questions.one_of("lstm_cell"))
    first = (table.section == Section.INPUT) & (table.position == 0)
    state = (table.section == Section.INPUT) & (table.position == 1)
    found = (is_back & calls.is_api & is_cell)[table.node] & ~first
    return np.asarray(found | ((is_back & calls.is_module & of_module)[table.node] & state))


def swapped_operands(
    calls: Calls, npu: ParameterTable, bench: ParameterTable, bench_of: Int, off: Bool
) -> Bool:
    """Rows of two operands that are each other's partner; ``off`` are rows that differ."""
    result = np.zeros(len(npu), dtype=bool)
    first = np.flatnonzero(off[:-1] & off[1:] & (npu.node[:-1] == npu.node[1:]))
    inputs = (npu.section[first] == Section.INPUT) & (npu.section[first + 1] == Section.INPUT)
    first = first[inputs & (npu.position[first] == 0)]
    first = first[calls.are(questions.commutes)[npu.node[first]]]
    here, there = bench_of[first], bench_of[first + 1]
    alike = _alike(npu.statistics[:, first], bench.statistics[:, there])
    alike &= _alike(npu.statistics[:, first + 1], bench.statistics[:, here])
    result[first[alike]] = result[first[alike] + 1] = True
    return result


def _alike(debug: Float, reference: Float) -> Bool:
    """Whether statistics of shape (4, n) are those of one tensor."""
    with np.errstate(all="ignore"):
        size = np.fmax(np.abs(reference[:2]).max(axis=0), 1e-30)
        change = np.abs(debug - reference)[[0, 1, 3]] / np.stack([size, size, reference[3]])
    return np.asarray(np.nan_to_num(change, nan=1.0).max(axis=0) < _ALIKE)
