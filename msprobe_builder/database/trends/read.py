"""What is asked of a .trend.db: its axes, and the values of a window over two of them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.database.problems import DamagedError
from msprobe_builder.database.read.cells import integer, optional_text, text
from msprobe_builder.database.trends.open import STATISTICS, statistics_of

MOST_CELLS = 4_000_000  # read for one window


@dataclass(frozen=True)
class TrendAxes:
    """The three axes of a file."""

    steps: tuple[int, ...]
    ranks: tuple[int, ...]
    kinds: tuple[str, ...]  # of each target
    names: tuple[str, ...]
    modules: tuple[str | None, ...]
    source: str  # monitor, dump or reference
    statistics: tuple[str, ...]


@dataclass(frozen=True)
class TrendPlace:
    """What is known of the place of a target in a model."""

    kind: str
    name: str
    module: str | None
    node: str | None


def read_axes(connection: sqlite3.Connection) -> TrendAxes:
    """Steps and ranks rising, targets in the order in which a step comes by them."""
    rows = connection.execute("SELECT target_id, kind, name, module FROM target ORDER BY target_id")
    kinds, names, modules = [], [], []
    for place, (target, kind, name, module) in enumerate(rows):
        if target != place:
            raise DamagedError(f"target {place} is missing")
        kinds.append(text(kind))
        names.append(text(name))
        modules.append(optional_text(module))
    meta = connection.execute("SELECT value FROM meta WHERE key = 'kind'").fetchone()
    return TrendAxes(
        tuple(integer(one) for (one,) in connection.execute("SELECT step FROM step ORDER BY step")),
        tuple(integer(one) for (one,) in connection.execute("SELECT rank FROM rank ORDER BY rank")),
        tuple(kinds),
        tuple(names),
        tuple(modules),
        text(meta[0]) if meta else "",
        statistics_of(connection),
    )


def read_place(connection: sqlite3.Connection, target: int) -> TrendPlace | None:
    """The place of a target, None when there is none of this number."""
    row = connection.execute(
        "SELECT kind, name, module, node FROM target WHERE target_id = ?", (target,)
    ).fetchone()
    if row is None:
        return None
    kind, name, module, node = row
    return TrendPlace(text(kind), text(name), optional_text(module), optional_text(node))


def find_targets(
    connection: sqlite3.Connection, names: Sequence[tuple[str, str]]
) -> NDArray[np.int64]:
    """The number of each target by kind and name, -1 where there is none."""
    rows = connection.execute(
        "SELECT wanted.key, target_id FROM json_each(?) AS wanted JOIN target"
        " ON kind = json_extract(wanted.value, '$[0]')"
        " AND name = json_extract(wanted.value, '$[1]')",
        (json.dumps(list(names)),),
    )
    found = np.full(len(names), -1, dtype=np.int64)
    for place, target in rows:
        found[place] = integer(target)
    return found


def read_window(
    connection: sqlite3.Connection,
    statistic: str,
    targets: Sequence[int],
    ranks: Sequence[int],
    steps: Sequence[int],
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Values of shape (targets, ranks, steps), and where there are any; NaN is a value.

    Only what is asked for is read: the primary key is sought by target and rank, and by step
    where there is one. Of a statistic that the file is too old for there are none. DamagedError for
    a value that is no number.
    """
    place = STATISTICS.index(statistic)
    shape = len(targets), len(ranks), len(steps)
    values, there = np.full(shape, np.nan), np.zeros(shape, dtype=bool)
    if not all(shape) or statistic not in statistics_of(connection):
        return values, there
    rows = connection.execute(
        f"SELECT target_id, rank, step, {STATISTICS[place]}, nan_flags >> {place} & 1 FROM value"
        " WHERE target_id IN (SELECT value FROM json_each(?))"
        " AND rank IN (SELECT value FROM json_each(?)) AND step BETWEEN ? AND ?"
        " AND step IN (SELECT value FROM json_each(?))",
        (
            *(json.dumps(list(axis)) for axis in (targets, ranks)),
            *(min(steps), max(steps)),
            json.dumps(list(steps)),
        ),
    ).fetchall()
    if not rows:
        return values, there
    columns = list(zip(*rows, strict=True))
    try:
        at = [
            _places(list(axis), np.array(column, dtype=np.int64))
            for axis, column in zip((targets, ranks, steps), columns[:3], strict=True)
        ]
        numbers = np.array(columns[3], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DamagedError("a value is no number") from error
    is_nan = np.array(columns[4], dtype=bool)
    known = (at[0] >= 0) & (at[1] >= 0) & (at[2] >= 0) & (~np.isnan(numbers) | is_nan)
    index = tuple(one[known] for one in at)
    values[index] = numbers[known]
    there[index] = True
    return values, there


def _places(axis: list[int], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place of each number on an axis, -1 for those that are not on it."""
    order = np.argsort(axis, kind="stable")
    ordered = np.array(axis, dtype=np.int64)[order]
    found = np.minimum(np.searchsorted(ordered, numbers), len(axis) - 1)
    return np.where(ordered[found] == numbers, order[found], -1)
