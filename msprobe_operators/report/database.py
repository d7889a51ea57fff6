"""Table ``operator_check`` of a .vis.db: what checks of a rank's calls have found."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from math import isfinite
from pathlib import Path
from typing import Protocol

from msprobe_builder.base.errors import BuildError, UsageError


class Row(Protocol):
    """What is stored of a checked call."""

    @property
    def name(self) -> str: ...
    @property
    def direction(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def compared(self) -> str: ...
    @property
    def times(self) -> float: ...
    @property
    def reason(self) -> str: ...


def store_checks(path: Path, rows: Sequence[Row], step: int, rank: int, side: int = 0) -> int:
    """Write rows beside the nodes of one step, rank and side; returns how many found their node.

    All of them or nothing is written. UsageError when the file has no such graph, BuildError
    when it cannot be written.
    """
    if not path.is_file():
        raise UsageError(f"{path} does not exist; give a .vis.db file.")
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            found = connection.execute(
                "SELECT graph_id FROM graph WHERE step = ? AND rank = ? AND side = ?",
                (step, rank, side),
            ).fetchone()
            if found is None:
                raise UsageError(f"{path} has no step {step} rank {rank} on that side.")
            nodes = dict(
                connection.execute(
                    "SELECT name, node_id FROM node_name JOIN node USING (node_id)"
                    " WHERE graph_id = ?",
                    found,
                )
            )
            known = [
                (
                    nodes[f"{row.name}.{row.direction}"],
                    row.status,
                    row.compared,
                    row.times if isfinite(row.times) else None,
                    row.reason,
                )
                for row in rows
                if f"{row.name}.{row.direction}" in nodes
            ]
            connection.executemany(
                "INSERT OR REPLACE INTO operator_check VALUES (?,?,?,?,?)", known
            )
            connection.execute("COMMIT")
            return len(known)
    except sqlite3.Error as error:
        raise BuildError(f"Cannot write operator_check into {path}: {error}.") from error
