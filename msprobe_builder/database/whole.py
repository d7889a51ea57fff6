"""Whether what was read of a .vis.db can be all of it: SQLite itself reads past some damage.

A page that lost cells, or an index that lost rows, answers without an error, with less.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msprobe_builder.database.open import opened
from msprobe_builder.database.problems import DamagedError

Authorizer = Callable[[int, str | None, str | None, str | None, str | None], int]

_READ = 20  # of https://sqlite.org/c3ref/c_alter_table.html


@contextmanager
def opened_whole(path: Path) -> Iterator[sqlite3.Connection]:
    """As :func:`opened`; in the end every table that was read is known to be whole, else FileError.

    What was read is to be told, or to get its name, only after that.
    """
    with opened(path) as connection, whole(connection, note_tables(connection)):
        yield connection


@contextmanager
def whole(connection: sqlite3.Connection, tables: set[str]) -> Iterator[None]:
    """DamagedError after it, or in the place of what SQLite says, when a table is not whole."""
    try:
        yield
    except (sqlite3.DatabaseError, DamagedError):
        _require_whole(connection, tables)
        raise
    _require_whole(connection, tables)


def note_tables(connection: sqlite3.Connection, allows: Authorizer | None = None) -> set[str]:
    """A set that the tables of the file come into when a statement is about to read them.

    ``allows`` is the authorizer that the connection shall have beside.
    """
    tables: set[str] = set()

    def note(
        action: int, first: str | None, second: str | None, schema: str | None, by: str | None
    ) -> int:
        # None stands where a statement counts rows and names no schema.
        if action == _READ and first is not None and schema in ("main", None):
            tables.add(first)
        return sqlite3.SQLITE_OK if allows is None else allows(action, first, second, schema, by)

    connection.set_authorizer(note)
    return tables


def _require_whole(connection: sqlite3.Connection, tables: set[str]) -> None:
    known = {
        str(name)
        for (name,) in connection.execute(
            "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND rootpage > 0"
        )
    }
    connection.set_authorizer(lambda *_: sqlite3.SQLITE_OK)
    for table in sorted(tables & known):
        # Names of tables come out of the file.
        quoted = table.replace("'", "''")
        [[said], *_] = connection.execute(f"PRAGMA main.integrity_check('{quoted}')").fetchall()
        if said != "ok":
            raise DamagedError(f"table {table} is not whole ({' '.join(str(said).split())})")
