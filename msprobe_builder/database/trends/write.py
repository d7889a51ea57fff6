"""Writing a .trend.db: targets first, then the values of one rank and step after the other."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.database.trends.open import STATISTICS, schema_text
from msprobe_builder.database.write.rows import clean


class Target(NamedTuple):
    """What is measured."""

    kind: str
    name: str
    module: str | None
    node: str | None


class TrendWriter:
    """Fills a new database; rows may come in any order, of equal ones the last one counts."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.executescript(schema_text())
        for pragma in ("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("BEGIN")
        self.targets: dict[tuple[str, str], int] = {}
        self.steps: set[int] = set()
        self.ranks: set[int] = set()
        self.rows = self.count = 0  # of values that were recorded

    def target(self, target: Target) -> int:
        """Its id; the first one of a kind and name counts."""
        key = clean(target.kind), clean(target.name)
        found = self.targets.get(key)
        if found is None:
            found = self.targets[key] = len(self.targets)
            rest = [None if one is None else clean(one) for one in target[2:]]
            self._connection.execute(
                "INSERT INTO target VALUES (?, ?, ?, ?, ?)", (found, *key, *rest)
            )
        return found

    def values(
        self,
        rank: int,
        step: NDArray[np.int64],
        target: NDArray[np.int64],
        values: NDArray[np.float64],
        missing: NDArray[np.bool_] | None = None,
    ) -> None:
        """Add rows of a rank; ``values`` has a column for each statistic."""
        nan = np.isnan(values)
        recorded = nan if missing is None else nan & ~missing
        flags = (recorded << np.arange(len(STATISTICS))).sum(axis=1)
        table = values.astype(object)
        table[nan] = None
        rows = zip(
            target.tolist(), [rank] * len(step), step.tolist(), *table.T.tolist(), flags.tolist(),
            strict=True,
        )  # fmt: skip
        self._connection.executemany(
            "INSERT OR REPLACE INTO value VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows
        )
        self.ranks.add(rank)
        self.steps.update(step.tolist())
        self.rows += len(step)
        self.count += int((recorded | ~nan).sum())

    def finish(self, meta: Mapping[str, str]) -> None:
        """Write the axes and make it last."""
        _insert_numbers(self._connection, "INSERT INTO step VALUES (?)", sorted(self.steps))
        _insert_numbers(self._connection, "INSERT INTO rank VALUES (?)", sorted(self.ranks))
        self._connection.executemany("INSERT INTO meta VALUES (?, ?)", sorted(meta.items()))
        self._connection.execute("ANALYZE")
        self._connection.execute("COMMIT")


def _insert_numbers(connection: sqlite3.Connection, statement: str, rows: Iterable[int]) -> None:
    connection.executemany(statement, ((number,) for number in rows))
