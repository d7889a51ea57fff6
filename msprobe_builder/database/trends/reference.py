"""What the reference tool (26.2.0) writes as .trend.db."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

from msprobe_builder.database.problems import DamagedError

STATISTICS = ("norm", "max", "min", "mean")
_TABLES = {"monitoring_targets", "monitoring_metrics", "trend_data"}
_BATCH = 100_000


class ReferenceRow(NamedTuple):
    """One row of its data, with names in place of numbers."""

    target: str
    stage: int  # of a virtual pipeline
    micro_step: int
    metric: str
    rank: int
    step: int
    values: tuple[float, ...]  # by STATISTICS, NaN where there is none


def is_reference(connection: sqlite3.Connection) -> bool:
    """Whether a database is one of those."""
    rows = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0"
    )
    return {name for (name,) in rows} >= _TABLES


def read_reference(connection: sqlite3.Connection) -> Iterator[list[ReferenceRow]]:
    """Its rows in batches, targets in their order; DamagedError where one is no such row."""
    rows = connection.execute(
        "SELECT target_name, vpp_stage, micro_step, metric_name, rank, step, norm, max, min, mean"
        " FROM trend_data JOIN monitoring_targets USING (target_id)"
        " JOIN monitoring_metrics USING (metric_id) ORDER BY target_id, metric_id, rank, step"
    )
    while batch := rows.fetchmany(_BATCH):
        yield [_row(row) for row in batch]


def _row(row: tuple[object, ...]) -> ReferenceRow:
    target, stage, micro_step, metric, rank, step, *values = row
    texts = isinstance(target, str) and isinstance(metric, str)
    numbers = (stage, micro_step, rank, step)
    if not texts or not all(isinstance(one, int) and 0 <= one < 2**31 for one in numbers):
        raise DamagedError("a row of trend_data is of an unknown form")
    # SQLite stores NaN as NULL.
    found = tuple(float(one) if isinstance(one, (int, float)) else math.nan for one in values)
    return ReferenceRow(target, stage, micro_step, metric, rank, step, found)  # type: ignore[arg-type]
