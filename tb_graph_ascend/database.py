"""Opening a .vis.db for reading: checked before SQLite sees it, and never written to."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tb_graph_ascend.discover import HEADER_SIZE, DatabaseFile, read_file
from tb_graph_ascend.open_files import held_open
from tb_graph_ascend.problems import ProblemError, cannot_show, try_again

SCHEMA_VERSION = 1
APPLICATION_ID = 0x4D535042
QUERY_SECONDS = 30.0
BUSY_SECONDS = 2.0
REBUILD = "Build it again with msprobe-build."

TABLES = frozenset(
    [
        *("argument", "communication", "comparison", "diagnostic", "edit", "frame", "grade"),
        *("graph", "match", "merge_recipe", "meta", "node", "origin", "overflow_parameter"),
        *("rollup", "stack", "tensor", "text", "unmatched", "unmatched_before"),
        *("unmatched_reason", "unrecorded"),
    ]
)
FOREIGN_TABLES = frozenset({"tb_nodes", "tb_config"})  # of the tool this one replaces


class DamagedError(Exception):
    """A row holds what the schema does not allow."""


@contextmanager
def open_database(file: DatabaseFile) -> Iterator[sqlite3.Connection]:
    """A connection that reads ``file`` at its revision; trouble ends in a ProblemError."""
    check_header(file)
    try:
        with held_open(file.path), closing(_connect(file)) as connection:
            check_tables(file, connection)
            now = read_file(file.name, file.path)
            if now is None or now.revision != file.revision:
                raise try_again(
                    "changed", f"{file.name} was replaced while it was read.", "Load it again."
                )
            yield connection
    except (sqlite3.Error, DamagedError, FileNotFoundError) as error:
        raise problem_of(file, error) from error


def check_header(file: DatabaseFile) -> None:
    """Refuse what can be refused by the first hundred bytes alone."""
    header, name = file.header, file.name
    if file.size == 0:
        raise cannot_show("empty_file", f"{name} is empty.", REBUILD)
    if not header:
        raise cannot_show(
            "no_permission",
            f"{name} may not be read by the user who runs TensorBoard.",
            f"Allow it: chmod a+r {name}",
        )
    if len(header) < HEADER_SIZE or not header.startswith(b"SQLite format 3\0"):
        raise cannot_show("not_a_database", f"{name} is not a SQLite database.", REBUILD)
    page_size = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big")
    pages_known = header[24:28] == header[92:96]
    if pages_known and file.size < pages * (65536 if page_size == 1 else page_size):
        raise cannot_show(
            "truncated", f"{name} is cut off: its end is missing.", f"Copy it again. {REBUILD}"
        )
    if int.from_bytes(header[68:72], "big") == APPLICATION_ID:
        version = int.from_bytes(header[60:64], "big")
        if version > SCHEMA_VERSION:
            raise cannot_show(
                "newer_schema",
                f"{name} has schema version {version}, this plugin reads {SCHEMA_VERSION}.",
                "Upgrade msprobe-graph in TensorBoard's environment.",
            )
        if version < SCHEMA_VERSION:
            raise cannot_show("damaged", f"{name} carries no schema version.", REBUILD)


def _connect(file: DatabaseFile) -> sqlite3.Connection:
    mode = "mode=ro"
    if 2 in (file.header[18], file.header[19]):
        # Write-ahead mode, set by some other program: reading it would create files beside it.
        log = file.path.with_name(file.path.name + "-wal")
        if log.exists() and log.stat().st_size:
            raise cannot_show(
                "unfinished",
                f"{file.name} has changes that are not in the file itself yet.",
                "Close the program that writes to it, or run: PRAGMA journal_mode = DELETE",
            )
        mode = "mode=ro&immutable=1"
    connection = connect(file.path, mode, BUSY_SECONDS)
    try:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("BEGIN")
    except BaseException:
        connection.close()
        raise
    return connection


def connect(path: Path, mode: str, busy_seconds: float) -> sqlite3.Connection:
    """A connection that trusts nothing in the file and gives up after a while."""
    connection = sqlite3.connect(
        f"{path.as_uri()}?{mode}",
        uri=True,
        timeout=busy_seconds,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.text_factory = _decode
        deadline = time.monotonic() + QUERY_SECONDS
        connection.set_progress_handler(lambda: time.monotonic() > deadline, 200_000)
        for pragma in ("trusted_schema = OFF", "cell_size_check = ON"):
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
    return connection


def _decode(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def check_tables(file: DatabaseFile, connection: sqlite3.Connection) -> None:
    """Refuse a database that is none of ours or lacks a table."""
    # Virtual tables have no root page: they would run code of the file's choice.
    query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0"
    tables = {name for (name,) in connection.execute(query)}
    if int.from_bytes(file.header[68:72], "big") != APPLICATION_ID:
        if tables >= FOREIGN_TABLES:
            raise cannot_show(
                "reference_format",
                f"{file.name} was written by another builder, in its own layout of tables.",
                "Build it again from the same dumps with msprobe-build.",
            )
        raise cannot_show(
            "foreign_database",
            f"{file.name} is a SQLite database, but not one of msprobe-build.",
            "Remove it from the log directory or give it another suffix.",
        )
    missing = TABLES - tables
    if missing:
        raise DamagedError(f"table {min(missing)} is missing")


def problem_of(file: DatabaseFile, error: Exception) -> ProblemError:
    """What an error that SQLite or the content of a file has caused means to the user."""
    text = str(error)
    if "locked" in text or "busy" in text:
        return try_again(
            "locked", f"{file.name} is being written by another program.", "Try again in a moment."
        )
    if "interrupted" in text:
        return try_again(
            "too_slow",
            f"Reading {file.name} took longer than {QUERY_SECONDS:.0f} seconds.",
            "Try again, or copy the file to a faster disk.",
        )
    return cannot_show("damaged", f"{file.name} is damaged: {text}.", REBUILD)
