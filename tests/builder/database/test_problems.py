"""What SQLite's errors mean, and what is not written to."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from msprobe_builder.base.errors import BuildError
from msprobe_builder.database.connection import begin_writing, connect
from msprobe_builder.database.open import prepare_writing
from msprobe_builder.database.problems import file_error
from msprobe_builder.database.write.checks import store_checks
from msprobe_builder.files.problems import FileError


@pytest.mark.parametrize(
    ("text", "word", "may_pass"),
    [
        ("database is locked", "locked", True),
        ("database table is locked", "locked", True),
        ("out of memory", "no_memory", True),
        ("interrupted", "too_slow", True),
        ("disk I/O error", "disk_error", True),
        ("database or disk is full", "disk_full", False),
        ("unable to open database file", "cannot_open", False),
        ("string or blob too big", "too_big", False),
        ("file is not a database", "damaged", False),
        ("malformed database schema", "damaged", False),
    ],
)
def test_errors_without_a_code_are_known_by_their_text(
    text: str, word: str, may_pass: bool
) -> None:
    """Python 3.10 has no codes; an error that is made by hand has none in any version."""
    found = file_error("a.vis.db", sqlite3.OperationalError(text))
    assert (found.code, found.may_pass) == (word, may_pass)
    assert found.message.count("a.vis.db") == 1


def test_our_own_mistakes_are_no_damage() -> None:
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        file_error("a.vis.db", sqlite3.ProgrammingError("Cannot operate on a closed database."))


def test_a_database_of_somebody_else_is_not_written_to(tmp_path: Path) -> None:
    path = tmp_path / "other.vis.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE graph (graph_id INTEGER PRIMARY KEY)")
        connection.commit()
    before = path.read_bytes()
    with closing(connect(path, "mode=rw", 1.0)) as connection:
        begin_writing(connection)
        with pytest.raises(FileError, match="not one of msprobe-build") as caught:
            prepare_writing(connection, path.name)
    assert caught.value.code == "foreign_database"
    with pytest.raises(BuildError, match="not one of msprobe-build"):
        store_checks(path, [], 0, 0)
    assert path.read_bytes() == before
