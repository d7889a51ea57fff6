"""The errors of pairs of tensors."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import METRICS
from msprobe_builder.database.late_columns import require_columns
from msprobe_builder.database.write.rows import BLOCK, OrNull, insert_rows
from msprobe_builder.facts.fact import Fact, Facts, encode
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.metrics.comparison import Comparisons, Metric


def write_comparisons(
    connection: sqlite3.Connection,
    comparisons: Comparisons,
    npu: ParameterTable,
    bench: ParameterTable,
    npu_nodes: NDArray[np.int64],
    text_id: Callable[[str], int],
) -> None:
    """Store errors; ``npu_nodes`` are the ids of the table's nodes, ``text_id`` stores notes."""
    pairs = comparisons.pairs
    key = {
        "npu_node": npu_nodes[npu.node[pairs.npu]],
        "npu_ordinal": npu.ordinal[pairs.npu],
        "bench_ordinal": bench.ordinal[pairs.bench],
    }
    insert_comparisons(connection, "comparison", key, comparisons, text_id)


def insert_comparisons(
    connection: sqlite3.Connection,
    table: str,
    key: dict[str, Any],
    comparisons: Comparisons,
    text_id: Callable[[str], int],
) -> None:
    """Store errors in a table that has the metrics' columns; ``key`` are its other columns."""
    count = len(comparisons.pairs)
    md5_equal = comparisons.md5_equal
    if md5_equal is not None and not (md5_equal >= 0).any():
        md5_equal = None
    apart = comparisons.apart
    notes: dict[int, Fact | Facts] = {**({} if apart is None else apart.said), **comparisons.notes}
    note_ids = _note_ids(count, notes, text_id) if notes else None
    slices = None if apart is None or not apart.slices.any() else apart.slices
    for first in range(0, count, BLOCK):
        block = slice(first, min(first + BLOCK, count))
        columns: dict[str, Any] = {name: column[block] for name, column in key.items()}
        metrics = comparisons.of_statistics(block) | {
            name: Metric(metric.value[block], metric.known[block])
            for name, metric in comparisons.metrics.items()
        }
        flags = np.zeros(block.stop - first, dtype=np.int64)
        for name, metric in metrics.items():
            flags |= (np.isnan(metric.value) & metric.known).astype(np.int64) << METRICS.index(name)
            columns[name] = np.where(metric.known, metric.value, np.nan)
        if md5_equal is not None:
            columns["md5_equal"] = OrNull(md5_equal[block], -1)
        columns["requires_grad_equal"] = OrNull(comparisons.requires_grad_equal[block], -1)
        columns |= {"error": comparisons.error[block], "nan_flags": flags}
        if note_ids is not None:
            columns["note_id"] = note_ids[block]
        if slices is not None:
            columns["slices"] = _blobs(slices[block])
        require_columns(connection, table, columns)
        insert_rows(connection, f"{table} ({', '.join(columns)})", list(columns.values()))


def _blobs(rows: NDArray[np.uint8]) -> list[bytearray | None]:
    """The bytes of each row, None of those without any but 0."""
    content, width = bytearray(rows.tobytes()), rows.shape[1]
    told: list[bool] = np.any(rows, axis=1).tolist()
    return [
        content[place * width : (place + 1) * width] if is_told else None
        for place, is_told in enumerate(told)
    ]


def _note_ids(
    count: int, notes: dict[int, Fact | Facts], text_id: Callable[[str], int]
) -> list[int | None]:
    ids: list[int | None] = [None] * count
    known: dict[int, int] = {}  # by the object, as one is said of many pairs
    for position, note in notes.items():
        if id(note) not in known:
            known[id(note)] = text_id(encode(note))
        ids[position] = known[id(note)]
    return ids
