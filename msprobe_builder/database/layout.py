"""What tables, columns, indexes and views a database has, and which it should have."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pkgutil import get_data

from msprobe_builder.base.codes import METRICS

_OBJECTS = (
    "SELECT type, name, sql FROM {schema}.sqlite_schema WHERE sql IS NOT NULL"
    # Virtual tables have no root page: they would run code of the file's choice.
    " AND (type != 'table' OR rootpage > 0) ORDER BY rowid"
)


@dataclass(frozen=True, order=True)
class Column:
    """A column of a table as ``PRAGMA table_info`` tells it."""

    name: str
    type: str
    not_null: bool
    default: str | None  # an SQL expression
    key: int  # place in the primary key from 1, 0 for none


@dataclass(frozen=True)
class Layout:
    """Everything by name; the texts are the statements that make it."""

    tables: dict[str, str]
    columns: dict[str, tuple[Column, ...]]
    views: dict[str, str]
    indexes: dict[str, str]

    def column_names(self, table: str) -> tuple[str, ...]:
        """Columns of a table in their order; empty for a table that is not there."""
        return tuple(column.name for column in self.columns.get(table, ()))


def schema_text() -> str:
    """The statements that make the tables, indexes and views of a database."""
    text = (get_data(__package__, "schema.sql") or b"").decode()
    columns = "\n    ".join(f"{name} REAL," for name in METRICS)
    shown = "\n       ".join(
        f"iif(own.nan_flags & {1 << bit}, 'NaN', own.{name}) AS {name},"
        for bit, name in enumerate(METRICS)
    )
    return text.replace("/* metrics */", columns).replace("/* metrics of own */", shown)


@lru_cache(maxsize=1)
def current_layout() -> Layout:
    """The layout that ``schema.sql`` makes."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(schema_text())
        return read_layout(connection)


def read_layout(connection: sqlite3.Connection) -> Layout:
    """The layout of an open database, without what is in its temporary schema."""
    found: dict[str, dict[str, str]] = {"table": {}, "view": {}, "index": {}, "trigger": {}}
    for kind, name, sql in connection.execute(_OBJECTS.format(schema="main")).fetchall():
        found[kind][name] = sql
    return Layout(
        tables=found["table"],
        columns={name: table_columns(connection, name) for name in found["table"]},
        views=found["view"],
        indexes=found["index"],
    )


def table_columns(connection: sqlite3.Connection, table: str) -> tuple[Column, ...]:
    """Columns of one table of the file."""
    rows = connection.execute(
        'SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(?, ?)',
        (table, "main"),
    )
    return tuple(Column(name, kind, bool(no), value, key) for name, kind, no, value, key in rows)
