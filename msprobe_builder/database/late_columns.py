"""Making a database table by table: what most files leave empty comes last.

A row of SQLite may end before columns that were added to its table later; they read as NULL
(https://sqlite.org/fileformat2.html#record_format). So columns that stay empty cost nothing when
the rows are written before the columns are added, instead of a byte for each row.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress

from msprobe_builder.base.codes import APPLICATION_ID, METRICS, STATISTIC_METRICS
from msprobe_builder.database.layout import current_layout, read_layout, table_columns
from msprobe_builder.database.migrations import SCHEMA_VERSION

# All may be NULL and have no default.
LATE = {
    "node": ("overflow",),
    "match": ("author", "matched_at", "note", "evidence", "certainty"),
    "tensor": ("md5", "file", "sketch"),
    "comparison": (*METRICS[len(STATISTIC_METRICS) :], "md5_equal", "note_id", "slices"),
}


def lay_out_short(connection: sqlite3.Connection) -> None:
    """Make empty tables, without late columns, indexes and views; see :func:`complete`."""
    for table, statement in current_layout().tables.items():
        connection.execute(_without(statement, LATE.get(table, ())))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def require_columns(connection: sqlite3.Connection, table: str, columns: Iterable[str]) -> None:
    """Add those late columns that a table does not have."""
    known = {column.name for column in table_columns(connection, table)}
    lacking = [column for column in columns if column not in known]
    if not lacking:
        return
    statements = [_adding(table, column) for column in lacking]
    if _is_told_alone(connection, table, statements):
        return
    for statement in statements:
        connection.execute(statement)


def _is_told_alone(connection: sqlite3.Connection, table: str, statements: list[str]) -> bool:
    """Whether the text of the schema could be changed alone, as rows need no change.

    To add a column to a table with conditions SQLite reads all its rows, to see whether these
    still hold; and for each column it reads the whole schema anew. What the schema says afterwards
    is asked of an empty table. Some systems let nobody write it (SQLITE_DBCONFIG_DEFENSIVE); then
    nothing was changed.
    """
    wanted = "type = 'table' AND name = ?"
    [[before]] = connection.execute(f"SELECT sql FROM sqlite_schema WHERE {wanted}", (table,))
    with closing(sqlite3.connect(":memory:")) as empty:
        empty.execute(before)
        for statement in statements:
            empty.execute(statement)
        [[after]] = empty.execute(f"SELECT sql FROM sqlite_schema WHERE {wanted}", (table,))
    [[version]] = connection.execute("PRAGMA schema_version")
    connection.execute("PRAGMA writable_schema = ON")
    try:
        with suppress(sqlite3.OperationalError):
            connection.execute(f"UPDATE sqlite_schema SET sql = ? WHERE {wanted}", (after, table))
            connection.execute(f"PRAGMA schema_version = {version + 1}")
            return True
        return False
    finally:
        connection.execute("PRAGMA writable_schema = RESET")  # which reads the schema anew


def complete(connection: sqlite3.Connection) -> None:
    """Add the late columns, indexes and views that a database does not have."""
    for table, columns in LATE.items():
        require_columns(connection, table, columns)
    there, target = read_layout(connection), current_layout()
    for name, statement in (target.indexes | target.views).items():
        if name not in there.indexes and name not in there.views:
            connection.execute(statement)


def _adding(table: str, column: str) -> str:
    """The statement that adds a column of the schema to a table."""
    return f"ALTER TABLE {table} ADD COLUMN {_definition(current_layout().tables[table], column)}"


def _definition(statement: str, column: str) -> str:
    """What the schema says of a column, which stands on a line of its own."""
    lines = (line.partition("--")[0].strip() for line in statement.splitlines())
    return next(line.removesuffix(",") for line in lines if line.startswith(f"{column} "))


def _without(statement: str, columns: Sequence[str]) -> str:
    """The statement that makes a table, without some of its columns."""
    starts = tuple(f"{column} " for column in columns)
    lines = statement.splitlines()
    short = "\n".join(line for line in lines if not line.strip().startswith(starts))
    # No comma behind the last column, which a comment may follow.
    return re.sub(r",(\s*(?:--[^\n]*\n\s*)?\)(?: WITHOUT ROWID)?)\Z", r"\1", short)
