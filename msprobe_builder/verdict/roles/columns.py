"""Columns of a parameter table in the form in which single elements of them are read fastest."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.graph.parameter_table import ParameterTable

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


def elements(column: NDArray[Any]) -> Sequence[Any]:
    """Elements of a column as Python's own numbers, without a copy."""
    return memoryview(np.ascontiguousarray(column))  # type: ignore[arg-type]


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
