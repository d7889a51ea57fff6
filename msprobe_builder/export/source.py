"""The database that something is exported from, opened to read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from msprobe_builder.errors import BuildError, UsageError

_APPLICATION_ID = 0x4D535042


@contextmanager
def opened(database: Path) -> Iterator[sqlite3.Connection]:
    """A connection that cannot write; what is no whole database of ours is a BuildError."""
    if not database.is_file():
        raise UsageError(f"{database} does not exist; give a .vis.db file.")
    uri = f"{database.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            [[identity]] = connection.execute("PRAGMA application_id")
            if identity != _APPLICATION_ID:
                raise BuildError(f"{database} is no database of msprobe-build; build one first.")
            yield connection
    except (sqlite3.Error, TypeError, ValueError, LookupError) as error:
        raise BuildError(f"{database} is damaged ({error}); build it again.") from error
