"""What a database holds already, and its copy that steps and ranks are added to."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from msprobe_builder.database.connection import connect_own
from msprobe_builder.database.open import opened


def schema_version(connection: sqlite3.Connection) -> int:
    """Which version of the schema the file itself has."""
    [[version]] = connection.execute("PRAGMA user_version")
    return int(version)


def read_inputs(connection: sqlite3.Connection) -> list[tuple[int, int, int, str | None]]:
    """Step, rank, side and inputs of each graph."""
    return connection.execute("SELECT step, rank, side, inputs FROM graph").fetchall()


def copy_without(database: Path, temporary: Path, added: Sequence[tuple[int, int]]) -> None:
    """Copy the database, without the findings that the ``added`` steps and ranks make untrue."""
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL, 0o666))
    with (
        opened(database, as_it_is=True) as source,
        closing(connect_own(temporary)) as copy,
    ):
        source.backup(copy)
        copy.execute("BEGIN")
        copy.executemany(
            "DELETE FROM diagnostic WHERE code = 'rank_failed' AND step = ? AND rank = ?", added
        )
        copy.execute("DELETE FROM diagnostic WHERE code = 'missing_rank'")
        copy.execute("COMMIT")
