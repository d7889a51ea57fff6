"""What matching compares of a node's parameters: number, type and shape."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.match.hashing import Keys, mixed

Int = NDArray[np.int64]


@dataclass(frozen=True)
class Signatures:
    """Per node: how many parameters go in and come out, and the rows of each in order.

    Parameters and gradients count as inputs. ``rows`` lists the table's rows by node, inputs
    before outputs; those of node i are ``rows[start[i]:start[i + 1]]``, the first
    ``inputs[i]`` of them inputs.
    """

    inputs: Int
    outputs: Int
    start: Int
    rows: Int
    type_id: Int  # by position in rows
    shape_id: Int
    name_id: Int
    is_unknown: NDArray[np.bool_]  # a tensor of which merging could not tell the shape


def signatures(table: ParameterTable, nodes: int) -> Signatures:
    """Signatures of all nodes of one side."""
    is_output = table.section == Section.OUTPUT
    rows = np.lexsort((np.arange(len(table)), is_output, table.node))
    total = np.bincount(table.node, minlength=nodes)
    outputs = np.bincount(table.node[is_output], minlength=nodes)
    return Signatures(
        inputs=total - outputs,
        outputs=outputs,
        start=np.r_[0, np.cumsum(total)],
        rows=rows,
        type_id=table.type_id[rows],
        shape_id=table.shape_id[rows],
        name_id=table.name_id[rows],
        is_unknown=(table.is_tensor & (table.shape_id < 0))[rows],
    )


def shape_keys(of: Signatures) -> Keys:
    """One key per node, equal where numbers and shapes of the parameters are."""
    total = of.inputs + of.outputs
    node = np.repeat(np.arange(len(total)), total)
    place = np.arange(len(node)) - of.start[node]
    sums = np.r_[np.uint64(0), np.cumsum(mixed(of.shape_id, place), dtype=np.uint64)]
    of_node = sums[of.start[1:]] - sums[of.start[:-1]]
    return mixed(of_node.astype(np.int64), of.inputs, of.outputs)


def equal_counts(npu: Signatures, bench: Signatures, i: Int, j: Int) -> NDArray[np.bool_]:
    """Whether node i of one side and node j of the other have as many inputs and outputs."""
    return np.asarray((npu.inputs[i] == bench.inputs[j]) & (npu.outputs[i] == bench.outputs[j]))


def differing(
    npu: Signatures, bench: Signatures, i: Int, j: Int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether any type, any shape differs position by position; counts must be equal."""
    counts = (npu.inputs + npu.outputs)[i]
    pair, left, right = _side_by_side(npu.start[i], bench.start[j], counts)
    type_differs = np.zeros(len(i), dtype=bool)
    shape_differs = np.zeros(len(i), dtype=bool)
    type_differs[pair[npu.type_id[left] != bench.type_id[right]]] = True
    shape_differs[pair[npu.shape_id[left] != bench.shape_id[right]]] = True
    return type_differs, shape_differs


def agreeing(npu: Signatures, bench: Signatures, i: Int, j: Int) -> NDArray[np.bool_]:
    """Whether the shapes agree position by position as far as both nodes have parameters.

    A shape that is not known agrees with any.
    """
    agrees = np.ones(len(i), dtype=bool)
    outputs = npu.start[i] + npu.inputs[i], bench.start[j] + bench.inputs[j]
    for begin, other_begin, counts in (
        (npu.start[i], bench.start[j], np.minimum(npu.inputs[i], bench.inputs[j])),
        (*outputs, np.minimum(npu.outputs[i], bench.outputs[j])),
    ):
        pair, left, right = _side_by_side(begin, other_begin, counts)
        differs = npu.shape_id[left] != bench.shape_id[right]
        differs &= ~(npu.is_unknown[left] | bench.is_unknown[right])
        agrees[pair[differs]] = False
    return agrees


def _side_by_side(left: Int, right: Int, counts: Int) -> tuple[Int, Int, Int]:
    """Number of the pair and positions on both sides for ranges of equal length."""
    pair = np.repeat(np.arange(len(counts)), counts)
    offset = np.arange(len(pair)) - np.repeat(np.cumsum(counts) - counts, counts)
    return pair, left[pair] + offset, right[pair] + offset
