"""A database that is made table by table is in the end one like any other."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from msprobe_builder.database.late_columns import LATE, complete, lay_out_short, require_columns
from msprobe_builder.database.layout import read_layout
from msprobe_builder.database.migrations import lay_out


def described(make: Callable[[sqlite3.Connection], object]) -> dict[str, object]:
    """Columns with all that SQLite knows of them, keys, indexes, views and numbers of a file."""
    with closing(sqlite3.connect(":memory:")) as connection:
        make(connection)
        layout = read_layout(connection)
        keys = {
            table: sorted(
                row[2:]  # without numbers that count the keys
                for row in connection.execute(f"PRAGMA foreign_key_list({table})")
            )
            for table in layout.tables
        }
        for view in layout.views:
            connection.execute(f"SELECT * FROM {view}").fetchall()
        return {
            "columns": {table: sorted(columns) for table, columns in layout.columns.items()},
            "keys": keys,
            "indexes": layout.indexes,
            "views": layout.views,
            "numbers": [
                connection.execute(f"PRAGMA {name}").fetchone()
                for name in ("application_id", "user_version")
            ],
        }


def made_late(connection: sqlite3.Connection) -> None:
    lay_out_short(connection)
    require_columns(connection, "match", ["certainty", "npu_node"])  # whatever comes first
    complete(connection)
    complete(connection)  # which has nothing left to do


def test_a_completed_database_is_that_of_the_schema() -> None:
    assert described(made_late) == described(lay_out)


@pytest.mark.parametrize(("table", "column"), [(t, c) for t, some in LATE.items() for c in some])
def test_late_columns_are_empty_unless_something_is_written(table: str, column: str) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        lay_out_short(connection)
        known = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        assert column not in known
        for number in (1, 2):
            if number == 2:
                require_columns(connection, table, [column])
                known.append(column)
            values = (
                [number] * len(known)
                if table != "node"
                else [number, 1, 1, 1] + [1] * (len(known) - 4)
            )
            connection.execute(
                f"INSERT INTO {table} ({', '.join(known)}) VALUES ({', '.join('?' * len(known))})",
                values,
            )
        complete(connection)
        key = known[0]
        found = connection.execute(f"SELECT {column} FROM {table} ORDER BY {key}").fetchall()
        assert found[0] == (None,)
        assert found[1] != (None,)


@pytest.mark.parametrize("is_forbidden", [False, True])
def test_a_table_with_conditions_gets_a_column_whoever_may_write_the_schema(
    tmp_path: Path, is_forbidden: bool
) -> None:
    """Read again by others, with its rows, its conditions and the text that SQLite would write."""

    def allowed(action: int, name: str | None, *_: object) -> int:
        is_asked_for = action == sqlite3.SQLITE_PRAGMA and name == "writable_schema"
        return sqlite3.SQLITE_IGNORE if is_asked_for else sqlite3.SQLITE_OK

    condition = "CHECK (overflow IN (1, 2, 3))"
    with closing(sqlite3.connect(tmp_path / "plain.db", isolation_level=None)) as plain:
        lay_out_short(plain)
        plain.execute(f"ALTER TABLE node ADD COLUMN overflow     INTEGER {condition}")
        expected = read_layout(plain)
    row = "INSERT INTO node (node_id, graph_id, subtree_end, kind, stem_id, direction, micro_step"
    with closing(sqlite3.connect(tmp_path / "late.db", isolation_level=None)) as connection:
        if is_forbidden:
            connection.set_authorizer(allowed)
        connection.execute("BEGIN")
        lay_out_short(connection)
        connection.execute(f"{row}) VALUES (1, 1, 1, 0, 1, 0, 0)")
        require_columns(connection, "node", ["overflow"])
        connection.execute(f"{row}, overflow) VALUES (2, 1, 2, 0, 1, 0, 0, 3)")
        connection.execute("COMMIT")
    with closing(sqlite3.connect(tmp_path / "late.db")) as other:
        assert read_layout(other) == expected
        assert other.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert other.execute("SELECT node_id, overflow FROM node").fetchall() == [(1, None), (2, 3)]
        with pytest.raises(sqlite3.IntegrityError):
            other.execute(f"{row}, overflow) VALUES (3, 1, 3, 0, 1, 0, 0, 4)")
