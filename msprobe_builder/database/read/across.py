"""The nodes of one name in all steps and ranks."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from math import isnan, nan

from msprobe_builder.base.codes import METRICS, STATISTICS, Section
from msprobe_builder.database.read.cells import integer, number, optional_integer
from msprobe_builder.database.read.graphs import BENCH
from msprobe_builder.dump.names import parse_name

RELATIVE_ERRORS = (
    *(f"{statistic}_relative_err" for statistic in STATISTICS),
    "relative_difference",
)
OUTPUTS = (Section.OUTPUT, Section.PARAMETERS_GRAD)


@dataclass(frozen=True)
class NodePlace:
    """The node in one step and rank; ``worst`` in the order of RELATIVE_ERRORS."""

    step: int
    rank: int
    index: int
    grade: int
    error: float | None
    overflow: int
    worst: tuple[float | None, ...]


def read_across(connection: sqlite3.Connection, name: str, side: int) -> list[NodePlace]:
    """Every node of this name, ordered by step and rank."""
    parsed = parse_name(name)
    call = parsed.call if parsed.direction else None
    rows = connection.execute(
        "SELECT node_id, step, rank, node_id - first_node, grade, error, overflow"
        " FROM text JOIN node ON stem_id = text_id JOIN graph USING (graph_id)"
        " WHERE text_id = (SELECT text_id FROM text WHERE value = ?)"
        " AND side = ? AND direction = ? AND call IS ? ORDER BY step, rank, node_id",
        (parsed.stem, side, parsed.direction, call),
    ).fetchall()
    return [
        NodePlace(
            step=integer(step),
            rank=integer(rank),
            index=integer(index),
            grade=integer(grade, 0, 6),
            error=number(error),
            overflow=optional_integer(overflow, 1, 3) or 0,
            worst=_worst(connection, node, side),
        )
        for node, step, rank, index, grade, error, overflow in rows
    ]


def _worst(connection: sqlite3.Connection, node: int, side: int) -> tuple[float | None, ...]:
    """Largest relative errors among the outputs of a node, NaN when one of them is."""
    own = "bench_node" if side == BENCH else "npu_node"
    rows = connection.execute(
        f"SELECT comparison.nan_flags, {', '.join(RELATIVE_ERRORS)}"
        " FROM match JOIN comparison USING (npu_node) JOIN tensor"
        " ON tensor.node_id = comparison.npu_node AND ordinal = npu_ordinal"
        f" WHERE {own} = ? AND section IN (?, ?)",
        (node, *OUTPUTS),
    ).fetchall()
    worst: list[float | None] = []
    for place, name in enumerate(RELATIVE_ERRORS, 1):
        bit = METRICS.index(name)
        values = [number(row[place], row[0] >> bit & 1) for row in rows]
        known = [value for value in values if value is not None]
        worst.append(nan if any(map(isnan, known)) else max(known, default=None))
    return tuple(worst)
