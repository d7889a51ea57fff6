"""Opening a .trend.db: checked before SQLite sees it, trusting nothing in it, never written to."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import lru_cache
from importlib import resources
from pathlib import Path

from msprobe_builder.database.layout import Layout, read_layout
from msprobe_builder.database.open import connected, found
from msprobe_builder.database.problems import DamagedError
from msprobe_builder.files.problems import FileError

SUFFIX = ".trend.db"
APPLICATION_ID = 0x4D535054  # "MSPT"
SCHEMA_VERSION = 2
# Bit i of value.nan_flags is that of the i-th.
STATISTICS = ("norm", "mean", "max", "min", "zeros", "nans", "change")
_OF_VERSION = {1: STATISTICS[:-1], SCHEMA_VERSION: STATISTICS}

_MAKE = "Make it again with msprobe-build trend."


def schema_text() -> str:
    """The statements that make an empty database of the current version."""
    return resources.files(__package__).joinpath("schema.sql").read_text("utf-8")


@lru_cache(maxsize=1)
def current_layout() -> Layout:
    """The layout that ``schema.sql`` makes."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(schema_text())
        return read_layout(connection)


def statistics_of(connection: sqlite3.Connection) -> tuple[str, ...]:
    """The statistics that a file of ours has columns for, which are fewer in older ones."""
    [[version]] = connection.execute("PRAGMA user_version")
    return _OF_VERSION[version]


@contextmanager
def opened_trend(
    path: Path, name: str | None = None, query_seconds: float | None = None
) -> Iterator[sqlite3.Connection]:
    """A connection that reads a file of ours and cannot write to it.

    UsageError when there is no file; FileError when it cannot be read.
    """
    file = found(path, SUFFIX)
    if name is not None:
        file = replace(file, name=name)
    with connected(file, query_seconds=query_seconds) as connection:
        prepare(connection, file.name)
        yield connection


def prepare(connection: sqlite3.Connection, name: str) -> None:
    """Let a connection see a file of ours as it is now; FileError for any other."""
    connection.execute("BEGIN")
    [[identity]] = connection.execute("PRAGMA application_id")
    [[version]] = connection.execute("PRAGMA user_version")
    if identity != APPLICATION_ID:
        raise FileError(
            "foreign_database",
            f"{name} is a SQLite database, but not one of msprobe-build trend.",
            "One of the reference tool is turned into ours with msprobe-build trend FILE -o out.",
        )
    if version not in _OF_VERSION:
        raise FileError(
            "newer_schema",
            f"{name} has schema version {version}, this program reads 1 to {SCHEMA_VERSION}.",
            _MAKE,
        )
    # Virtual tables and views would run code of the file's choice: only plain tables are read.
    plain = read_layout(connection).columns
    later = set(STATISTICS).difference(_OF_VERSION[version])
    for table, columns in current_layout().columns.items():
        if plain.get(table) != tuple(one for one in columns if one.name not in later):
            raise DamagedError(f"table {table} is missing or has other columns")
    connection.execute("PRAGMA query_only = ON")
