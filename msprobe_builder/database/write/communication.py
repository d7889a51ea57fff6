"""Writing which calls exchange data across ranks."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable


def write_communication(
    connection: sqlite3.Connection, rows: Iterable[tuple[int, int, int, bool | None]]
) -> None:
    """Store node, partner, role and whether the data are equal, None when it cannot be told."""
    connection.executemany("INSERT INTO communication VALUES (?, ?, ?, ?)", rows)
