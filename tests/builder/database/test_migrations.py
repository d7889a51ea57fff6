"""Files of older versions: read as they are, brought up to date; newer ones are refused."""

from __future__ import annotations

import lzma
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from msprobe_builder.base.codes import METRICS
from msprobe_builder.base.errors import BuildError
from msprobe_builder.command.main import main
from msprobe_builder.database.layout import current_layout, read_layout
from msprobe_builder.database.migrations import RELEASED, SCHEMA_VERSION, STEPS, migrate
from msprobe_builder.database.open import opened
from msprobe_builder.database.upgrade import upgraded_copy
from tests.conftest import REPOSITORY

VERSIONS = {
    int(path.name.split(".")[0].removeprefix("version_")): path
    for path in (REPOSITORY / "tests" / "data").glob("version_*.vis.db.xz")
}
NEWER_THAN_1 = ["unrecorded", "unmatched_before", "merge_data", "merge_directory"]
VIEWS = ["node_view", "tensor_view", "node_name", "recipe_view"]


def unpacked(version: int, folder: Path) -> Path:
    path = folder / f"version_{version}.vis.db"
    path.write_bytes(lzma.decompress(VERSIONS[version].read_bytes()))
    return path


@pytest.fixture(params=sorted(VERSIONS))
def older(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return unpacked(request.param, tmp_path)


@pytest.fixture
def early(tmp_path: Path) -> Path:
    """A file of version 1 from before its last tables, with a recipe in its first form."""
    path = unpacked(1, tmp_path)
    with closing(sqlite3.connect(path)) as database:
        for view in VIEWS:
            database.execute(f"DROP VIEW {view}")
        for table in NEWER_THAN_1:
            database.execute(f"DROP TABLE {table}")
        database.execute("DROP INDEX node_overflow")
        database.commit()
    return path


def as_at_first(path: Path) -> Path:
    """The same with a recipe, and with a history, in the form they had at first."""
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "DROP TABLE merge_recipe; CREATE TABLE merge_recipe (node_id INTEGER NOT NULL,"
            " ordinal INTEGER NOT NULL, recipe TEXT NOT NULL, PRIMARY KEY (node_id, ordinal))"
            " WITHOUT ROWID; INSERT INTO merge_recipe VALUES (2, 0, 'sum of 2 ranks'),"
            " (2, 1, 'sum of 2 ranks'), (3, 0, 'DefaultModel');"
            "DROP TABLE edit; CREATE TABLE edit (edit_id INTEGER PRIMARY KEY);"
        )
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def rows(connection: sqlite3.Connection, query: str) -> list[tuple[object, ...]]:
    return connection.execute(query).fetchall()


def dumped(path: Path, of: Path) -> Iterator[tuple[str, list[tuple[object, ...]]]]:
    """Rows of ``path`` in the tables and columns that the file ``of`` has."""
    with closing(sqlite3.connect(of)) as connection:
        columns = read_layout(connection).columns
    with closing(sqlite3.connect(path)) as connection:
        for table, known in columns.items():
            listed = ", ".join(column.name for column in known)
            yield table, sorted(rows(connection, f"SELECT {listed} FROM {table}"), key=repr)


def test_a_file_of_every_released_version_is_kept() -> None:
    assert set(VERSIONS) == set(RELEASED) - {SCHEMA_VERSION}
    assert set(RELEASED) <= {1, *(step.version for step in STEPS)}
    assert STEPS[-1].version == SCHEMA_VERSION


def test_an_older_file_reads_like_one_of_today_and_stays_as_it_is(older: Path) -> None:
    before = older.read_bytes(), older.stat().st_mtime_ns, names(older.parent)
    with opened(older) as connection:
        for name, columns in current_layout().columns.items():
            found = connection.execute(f"SELECT * FROM {name} LIMIT 0").description
            assert {column.name for column in columns} <= {column[0] for column in found}
        for view in current_layout().views:
            connection.execute(f"SELECT * FROM {view} LIMIT 3").fetchall()
        assert rows(connection, "SELECT count(*) > 100 FROM node_view") == [(1,)]
        assert rows(connection, "SELECT count(*) FROM edit") == [(3,)]
        with pytest.raises(sqlite3.OperationalError):
            connection.execute("DELETE FROM node")
    assert (
        older.read_bytes(),
        older.stat().st_mtime_ns,
        names(older.parent),
    ) == before


def test_what_an_older_file_lacks_reads_as_empty(early: Path) -> None:
    with opened(early) as connection:
        for table in NEWER_THAN_1:
            assert rows(connection, f"SELECT * FROM {table}") == []
        assert rows(connection, "SELECT * FROM recipe_view") == []
        assert rows(connection, "SELECT count(*) > 100 FROM tensor_view") == [(1,)]


def test_an_upgraded_copy_has_the_layout_of_a_new_file_and_the_same_rows(
    older: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.vis.db"
    assert main(["upgrade", str(older), "-o", str(copy)]) == 0
    with closing(sqlite3.connect(copy)) as connection:
        target, found = current_layout(), read_layout(connection)
        for table, columns in target.columns.items():
            # Rows of comparisons are written by the names of their columns: metrics come last.
            order = sorted if METRICS[0] in target.column_names(table) else list
            assert order(found.columns[table]) == order(columns)
        assert found.views == target.views
        assert found.indexes.keys() == target.indexes.keys()
        assert rows(connection, "PRAGMA user_version") == [(SCHEMA_VERSION,)]
        assert rows(connection, "PRAGMA application_id") == [(0x4D535042,)]
        assert rows(connection, "PRAGMA integrity_check") == [("ok",)]
        assert rows(connection, "PRAGMA foreign_key_check") == []
        assert not migrate(connection)
    before = dict(dumped(older, older))
    assert dict(dumped(copy, older)) == before
    assert not any(kept for table, kept in dumped(copy, copy) if table not in before)


def test_every_form_of_version_1_is_brought_up_to_date(early: Path, tmp_path: Path) -> None:
    first = as_at_first(early)
    with (
        pytest.raises(BuildError, match=r"must be rewritten first.*msprobe-build upgrade"),
        opened(first),
    ):
        pass
    copy = tmp_path / "copy.vis.db"
    upgraded_copy(first, copy)
    with opened(copy) as connection:
        assert rows(connection, "SELECT * FROM recipe_view") == [
            (2, 0, "sum of 2 ranks"),
            (2, 1, "sum of 2 ranks"),
            (3, 0, "DefaultModel"),
        ]
        assert rows(connection, "SELECT count(*), count(DISTINCT value) FROM text") == rows(
            connection, "SELECT count(*), count(*) FROM text"
        )
        assert rows(connection, "SELECT count(*) FROM edit") == [(0,)]


def test_a_file_that_lacks_what_its_version_had_is_damaged(early: Path) -> None:
    with closing(sqlite3.connect(early)) as connection:
        connection.execute("DROP TABLE comparison")
    with pytest.raises(BuildError, match="is damaged: table comparison is missing"), opened(early):
        pass
    with pytest.raises(BuildError, match="is damaged: table comparison is missing"):
        upgraded_copy(early, early.with_name("copy.vis.db"))
    assert names(early.parent) == [early.name]


def test_a_virtual_table_is_none_of_ours(older: Path) -> None:
    """It would run code of the file's choice; here its module does not even exist."""
    with closing(sqlite3.connect(older)) as connection:
        connection.execute("DROP TABLE origin")
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "INSERT INTO sqlite_schema VALUES ('table', 'origin', 'origin', 0,"
            " 'CREATE VIRTUAL TABLE origin USING unheard_of(origin, name)')"
        )
        connection.commit()
    with pytest.raises(BuildError, match="is damaged: table origin is missing"), opened(older):
        pass


def test_views_go_whatever_they_are_called(older: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(older)) as connection:
        connection.execute('CREATE VIEW "a""b" AS SELECT 1')
        connection.commit()
    copy = tmp_path / "copy.vis.db"
    upgraded_copy(older, copy)
    with closing(sqlite3.connect(copy)) as connection:
        assert read_layout(connection).views == current_layout().views


def test_a_newer_file_asks_for_a_newer_program(
    older: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(older)) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    for command, output in (("report", "a.html"), ("export", "a.csv"), ("upgrade", "a.vis.db")):
        assert main([command, str(older), "-o", str(tmp_path / output)]) == 1
        said = capsys.readouterr().err
        assert f"schema version {SCHEMA_VERSION + 1}" in said
        assert "Update msprobe-graph" in said
    assert names(tmp_path) == [older.name]


def test_a_damaged_file_gets_no_copy_that_looks_new(
    demo_database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the damage lies in what today's form leaves as it is."""
    path = tmp_path / "x.vis.db"
    content = bytearray(demo_database.read_bytes())
    size = int.from_bytes(content[16:18], "big")
    leaves = [at for at in range(size, len(content), size) if content[at] == 13]  # of tables
    first, second = leaves[:2]
    content[first : first + size] = content[second : second + size]
    path.write_bytes(content)
    copy = tmp_path / "copy.vis.db"
    assert main(["upgrade", str(path), "-o", str(copy)]) == 1
    assert "x.vis.db is damaged: SQLite: " in capsys.readouterr().err
    assert not copy.exists()
