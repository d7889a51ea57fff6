"""SQL of a person's reads a file and does nothing else, whatever it says and whatever the file."""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe_builder.command.main import main
from tests.conftest import REPOSITORY

ENDLESS = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) "


@pytest.fixture
def database(demo_database: Path, tmp_path: Path) -> Path:
    """A copy in a folder of its own."""
    return Path(shutil.copy(demo_database, tmp_path / "copy.vis.db"))


HARMFUL = [
    "ATTACH '{folder}/other.db' AS other",
    "VACUUM",
    "VACUUM INTO '{folder}/other.db'",
    "DELETE FROM node",
    "INSERT INTO meta VALUES ('a', 'b') RETURNING *",
    "UPDATE meta SET value = 'x'",
    "WITH t AS (SELECT 1) DELETE FROM match",
    "CREATE TABLE other (x)",
    "CREATE TEMP TABLE other (x)",
    "CREATE VIRTUAL TABLE temp.other USING fts5(x)",
    "DROP VIEW node_view",
    "ALTER TABLE meta RENAME TO other",
    "REINDEX",
    "ANALYZE",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT here",
    "DETACH main",
    "PRAGMA query_only = OFF",
    "PRAGMA writable_schema = ON",
    "PRAGMA journal_mode = WAL",
    "PRAGMA user_version = 99",
    "PRAGMA database_list",
    "SELECT * FROM pragma_database_list",
    "SELECT load_extension('{folder}/other.so')",
    "SELECT 1; DELETE FROM node",
    "",
    "-- nothing",
    "no SQL",
    "SELECT ?",
    "SELECT * FROM no_table",
    "SELECT replace(hex(zeroblob(10000000)), '0', 'aaaaaaaaaa')",
]


@pytest.mark.parametrize("sql", HARMFUL)
def test_what_does_not_read_is_refused_in_a_sentence(
    sql: str, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = database.read_bytes()
    assert main(["query", str(database), sql.format(folder=database.parent)]) == 2
    printed = capsys.readouterr()
    assert not printed.out
    assert len(printed.err.splitlines()) == 1
    assert "SQL" in printed.err
    assert database.read_bytes() == before
    assert [one.name for one in database.parent.iterdir()] == [database.name]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (f"{ENDLESS} SELECT count(*) FROM t", "within 1 s"),
        (f"{ENDLESS} SELECT x FROM t WHERE x < 0", "within 1 s"),
    ],
)
def test_an_endless_question_ends(
    sql: str, said: str, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["query", str(database), sql, "--seconds", "1"]) == 1
    assert said in capsys.readouterr().err


def test_an_answer_that_takes_too_much_memory_ends(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sql = f"{ENDLESS} SELECT x, randomblob(1000000) FROM t ORDER BY 2"
    assert main(["query", str(database), sql, "--seconds", "600"]) == 1
    assert "512 MiB of memory" in capsys.readouterr().err


def test_rows_end_where_the_option_says(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sql = f"{ENDLESS} SELECT x FROM t"
    for rows, status in (("3", 3), ("5", 3)):
        assert main(["query", str(database), sql, "--csv", "--rows", rows]) == status
        printed = capsys.readouterr()
        assert printed.out.split() == ["x", *map(str, range(1, int(rows) + 1))]
        assert f"these {rows} rows" in printed.err
    assert main(["query", str(database), f"{sql} LIMIT 3", "--csv", "--rows", "3"]) == 0


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def test_a_file_that_would_run_code_is_refused(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(database, "CREATE VIRTUAL TABLE trap USING fts5(x)")
    for command in (["query", str(database), "SELECT * FROM trap"], ["schema", str(database)]):
        assert main(command) == 1
        assert "virtual table" in capsys.readouterr().err


def test_a_view_of_the_file_cannot_call_what_is_dangerous(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(
        database,
        "DROP VIEW node_view",
        "CREATE VIEW node_view AS SELECT load_extension('x') AS name FROM meta",
    )
    assert main(["query", str(database), "SELECT * FROM node_view"]) == 2
    assert not capsys.readouterr().out


def test_what_a_file_holds_does_not_move_the_cursor(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "'\x1b[2J\r\n\u202eevil\x07' || char(10)"
    for form in ("--table", "--csv", "--json"):
        sql = f'SELECT {hostile} AS "a\x1b[1m\nb", 1e999 AS big, -1e999 AS small, 1 AS one'
        assert main(["query", str(database), sql, form]) == 0
        printed = capsys.readouterr().out
        assert all(character.isprintable() or character == "\n" for character in printed), form
        assert "inf" in printed


VALUES = (
    st.none()
    | st.integers(-(2**63), 2**63 - 1)
    # SQLite reads other decimals to the last digit but one.
    | st.integers(-(2**40), 2**40).map(lambda number: number / 8)
    | st.sampled_from([math.inf, -math.inf, 0.1, 1e300])
    | st.text(st.characters(codec="utf-8", exclude_characters="\0"))
)


def literal(value: float | str | None) -> str:
    """A value as SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return {"inf": "1e999", "-inf": "-1e999", str(-(2**63)): "-9223372036854775807-1"}.get(
        str(value), repr(value)
    )


@given(rows=st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=4))
def test_csv_and_json_hold_what_was_asked_for(
    rows: list[tuple[float | str | None, ...]], demo_database: Path
) -> None:
    sql = "VALUES " + ",".join("(" + ",".join(map(literal, row)) + ")" for row in rows)
    printed = {}
    for form in ("--csv", "--json"):
        with (
            closing(io.StringIO()) as stream,
            pytest.MonkeyPatch.context() as patch,
        ):
            patch.setattr("sys.stdout", stream)
            assert main(["query", str(demo_database), sql, form]) == 0
            printed[form] = stream.getvalue()
    found = [tuple(row.values()) for row in json.loads(printed["--json"])]
    assert found == [tuple(str(one) if one in INFINITE else one for one in row) for row in rows]
    [_, *lines] = csv.reader(io.StringIO(printed["--csv"], newline=""))
    numbers = [one for row in rows for one in row if isinstance(one, int | float)]
    texts = [cell for line in lines for cell in line]
    assert len(lines) == len(rows)
    assert [
        type(one)(text)
        for one, text in zip([one for row in rows for one in row], texts, strict=True)
        if isinstance(one, int | float)
    ] == numbers


INFINITE = (float("inf"), float("-inf"))


def test_the_schema_names_every_column_of_the_document(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", str(database)]) == 0
    printed = capsys.readouterr().out
    document = (REPOSITORY / "docs" / "design" / "database.md").read_text("utf-8")
    for view in ("node_view", "tensor_view", "suspect", "node"):
        assert f"\n{view}, " in f"\n{printed}"
        assert f"### {view}" in document
    with closing(sqlite3.connect(database)) as connection:
        [[nodes]] = connection.execute("SELECT count(*) FROM node")
    assert f"node, {nodes:,} rows" in printed


def test_an_older_file_is_asked_as_one_of_today(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import lzma

    old = tmp_path / "old.vis.db"
    packed = REPOSITORY / "tests" / "data" / "version_1.vis.db.xz"
    old.write_bytes(lzma.decompress(packed.read_bytes()))
    sql = "SELECT count(*) AS nodes FROM node_view LEFT JOIN suspect USING (node_id)"
    assert main(["query", str(old), sql, "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)
    assert row["nodes"] > 0
    assert main(["schema", str(old)]) == 0
    assert "suspect, 0 rows" in capsys.readouterr().out
