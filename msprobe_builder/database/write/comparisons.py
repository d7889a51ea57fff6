"""The errors of pairs of tensors."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import METRICS
from msprobe_builder.database.write.rows import insert_rows
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.metrics.comparison import Comparisons


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
    measured = [name for name in METRICS if name in comparisons.metrics]
    flags = np.zeros(len(comparisons.pairs), dtype=np.int64)
    for name in measured:
        metric = comparisons.metrics[name]
        flags |= (np.isnan(metric.value) & metric.known).astype(np.int64) << METRICS.index(name)
    columns = key | {
        name: np.where(comparisons.metrics[name].known, comparisons.metrics[name].value, np.nan)
        for name in measured
    }
    places = ["?"] * len(columns)
    if comparisons.md5_equal is not None and (comparisons.md5_equal >= 0).any():
        columns["md5_equal"] = comparisons.md5_equal
        places.append("nullif(?, -1)")
    columns["requires_grad_equal"] = comparisons.requires_grad_equal
    places.append("nullif(?, -1)")
    columns |= {"error": comparisons.error, "nan_flags": flags}
    if comparisons.notes:
        columns["note_id"] = _note_ids(comparisons, text_id)
    places += ["?"] * (len(columns) - len(places))
    into = f"{table} ({', '.join(columns)})"
    insert_rows(connection, into, ", ".join(places), list(columns.values()))


def _note_ids(comparisons: Comparisons, text_id: Callable[[str], int]) -> list[int | None]:
    ids: list[int | None] = [None] * len(comparisons.pairs)
    for position, note in comparisons.notes.items():
        ids[position] = text_id(note)
    return ids
