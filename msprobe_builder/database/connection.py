"""Connections of SQLite that trust nothing in a file, and their transactions."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path

from msprobe_builder.base.limits import LARGEST_VALUE

BUSY_SECONDS = 10.0  # wait for another program that has the file locked

_STEPS_PER_LOOK = 200_000  # of SQLite's machine, between two looks at the clock


def connect(
    path: Path, mode: str, busy_seconds: float = BUSY_SECONDS, query_seconds: float | None = None
) -> sqlite3.Connection:
    """A connection to a file that is there; it gives up after ``query_seconds``.

    ``mode`` holds parameters of SQLite's URI. Whoever opens a file from outside holds it open
    meanwhile, see ``files/regular.py``.
    """
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{mode}",
        uri=True,
        timeout=busy_seconds,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.text_factory = _decode
        if hasattr(connection, "setlimit"):  # from Python 3.11 on
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)
        if query_seconds is not None:
            allow_seconds(connection, query_seconds)
        for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "temp_store = MEMORY"):
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
    return connection


def connect_own(path: Path) -> sqlite3.Connection:
    """A connection to a file that this process alone knows, made if it is missing, without locks.

    Not every file system has locks, and nobody else looks at a file before it has its name.
    """
    if os.name != "posix":
        return sqlite3.connect(path, isolation_level=None)
    uri = f"{path.absolute().as_uri()}?vfs=unix-none"
    return sqlite3.connect(uri, uri=True, isolation_level=None)


def allow_seconds(connection: sqlite3.Connection, seconds: float) -> None:
    """Give up what the connection is asked for when it takes longer than that from now on."""
    deadline = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_PER_LOOK)


def begin_writing(connection: sqlite3.Connection) -> None:
    """Begin a transaction of which nothing is seen, or lost, before it is complete."""
    # A rollback journal, deleted last: the file alone is always complete. Also across a loss of
    # power, so the directory is synced after the journal has gone.
    for pragma in ("journal_mode = DELETE", "synchronous = EXTRA", "foreign_keys = OFF"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("BEGIN IMMEDIATE")


def store(connection: sqlite3.Connection) -> None:
    """Make a transaction last."""
    connection.execute("COMMIT")


def store_and_go_on(connection: sqlite3.Connection) -> None:
    """The same in a file that nobody else knows yet, and begin another, with nothing in memory."""
    store(connection)
    connection.execute("PRAGMA shrink_memory")
    connection.execute("BEGIN")


def roll_back(connection: sqlite3.Connection) -> None:
    """Take back what was not stored, if anything."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def read_something(connection: sqlite3.Connection) -> None:
    """Make SQLite look into the file: it then finishes what a killed program left undone."""
    connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()


def _decode(value: bytes) -> str:
    return value.decode("utf-8", "replace")
