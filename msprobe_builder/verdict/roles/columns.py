"""Columns of a parameter table in the form in which single elements of them are read fastest."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.verdict.differences.flow import Flow

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


def elements(column: NDArray[Any]) -> Sequence[Any]:
    """Elements of a column as Python's own numbers, without a copy."""
    return memoryview(np.ascontiguousarray(column))  # type: ignore[arg-type]


def truths(column: Bool) -> bytes:
    """Elements of a column of truth values."""
    return column.tobytes()


def rows_by_node(
    table: ParameterTable, nodes: int, chosen: Bool
) -> tuple[array[int], Sequence[int]]:
    """The chosen rows in order, and where those of each node begin among them."""
    rows = np.flatnonzero(chosen)
    starts = np.searchsorted(table.node[rows], np.arange(nodes + 1))
    return array("i", rows.astype(np.int32).tobytes()), elements(starts)


def at_least_one(table: ParameterTable) -> Float:
    """Elements of tensors, at least one; nearly always the column itself."""
    odd = table.is_tensor & ~(table.numel >= 1.0)
    return np.fmax(table.numel, 1.0) if odd.any() else table.numel


def first_rows(rows: array[int], starts: Sequence[int]) -> Int:
    """The first of the rows of each node, -1 without."""
    start = np.asarray(starts)
    every = np.r_[np.frombuffer(rows, dtype=np.int32), -1]
    return np.where(start[:-1] < start[1:], every[start[:-1]], -1)


def first_modules(flow: Flow) -> Sequence[int]:
    """Of each node the first module that ran in its micro-step."""
    steps = flow.npu.tree.micro_step
    modules = np.flatnonzero(flow.npu.calls.is_module & (flow.npu.tree.parent >= 0))
    numbers, first = np.unique(steps[modules], return_index=True)
    place = np.searchsorted(numbers, steps).clip(max=max(len(numbers) - 1, 0))
    return elements(modules[first][place] if len(modules) else np.zeros(len(steps), dtype=int))


def made_by_both(flow: Flow) -> Bool:
    """Rows whose tensor of the reference was put out by a call that this run makes, too."""
    reference = np.append(flow.bench_producer, -1)[flow.bench_of]
    return np.asarray((reference >= 0) & (np.append(flow.npu_of, -1)[reference] >= 0))


def with_calls_inside(flow: Flow) -> Bool:
    """Nodes in which calls were recorded; of modules alone, gradients of parameters are none."""
    tree, calls = flow.npu.tree, flow.npu.calls
    inside = np.ones(len(tree), dtype=bool)
    if not calls.is_api.any():
        inside = calls.of_stems(lambda stem: ".parameters_grad" in stem) == 0
    until = np.cumsum(inside)
    return np.asarray(until[tree.subtree_end] > until)


def inside_gradients(flow: Flow) -> Bool:
    """Forward calls that functions with a derivative of their own make in the backward pass."""
    calls, tree = flow.npu.calls, flow.npu.tree
    back = calls.direction == Direction.BACKWARD
    return np.asarray(calls.is_forward_call & back[tree.parent] & ~tree.is_recompute)


def of_other_types(flow: Flow) -> NDArray[np.bool_]:
    """Calls, of both directions, that are given or put out another type than in the reference."""
    table, twin = flow.npu.table, flow.twin
    rows = np.flatnonzero(flow.bench_of >= 0)
    differs = table.dtype_id[rows] != flow.bench.table.dtype_id[flow.bench_of[rows]]
    found = flow.partner < 0
    found[table.node[rows[differs]]] = True
    return np.asarray(found | ((twin >= 0) & found[twin]))
