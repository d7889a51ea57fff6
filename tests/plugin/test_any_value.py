"""Any value in any column: SQLite keeps whatever a file's maker has put there."""

from __future__ import annotations

import gc
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from msprobe_builder.base.codes import CallRole, Direction, Grade, Kind, Section, Strength
from tests.plugin.changing import operation, post, revision_of
from tests.plugin.conftest import EXAMPLE, GOOD, Ask, catalog, client_of
from tests.plugin.example import write_example

VALUES = (
    *("NULL", "'x'", "''", "'5'", "x'ff00'", "CAST(x'ff' AS TEXT)", "zeroblob(300000)"),
    *("-1", "0.5", "1e300", "9e999", "4294967296", "9223372036854775807", "-9223372036854775808"),
)
CHANGES: dict[str, list[dict[str, Any]]] = {
    "match": [
        {"operations": [operation(3, 3, "UNMATCH", descendants=True)], "dryRun": True},
        {"operations": [operation(4, 4, replace=True)]},
    ],
    "undo": [{}],
    "redo": [{}],
    "matches": [{"content": '{"Functional.linear.3.forward": "Functional.linear.3.forward"}'}],
}
FINE = {200, 400, 403, 404, 409, 413, 422}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("any") / "sound.vis.db"
    write_example(path)
    return path


def columns(database: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(
            "SELECT made.name, part.name FROM sqlite_schema AS made,"
            " pragma_table_info(made.name) AS part WHERE made.type = 'table'"
        ).fetchall()


def put(database: Path, table: str, column: str, value: str) -> None:
    """Into as many rows as its constraints let it."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(f"UPDATE OR IGNORE {table} SET {column} = {value}")
        connection.commit()


def answers(ask: Ask) -> Iterator[tuple[str, TestResponse]]:
    """Of every route and method."""
    for name, good in GOOD.items():
        yield name, ask(name, **good)
    for name, bodies in CHANGES.items():
        for body in bodies:
            based = {"file": EXAMPLE, "revision": revision_of(ask, EXAMPLE), **body}
            yield f"POST {name}", post(ask, name, based)


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("graph", "node_count", "4000000000"),  # columns of 32 GB
        ("match", "bench_node", "npu_node"),  # a candidate before its graph
        ("rollup", "ok", "4294967296"),  # beyond the message: the whole catalog
    ],
)
def test_what_once_was_a_fault_of_ours(
    sound: Path, tmp_path: Path, table: str, column: str, value: str
) -> None:
    ask, place = spoilt(sound, tmp_path)
    put(place, table, column, value)
    assert not [name for name, answer in answers(ask) if answer.status_code not in FINE]
    assert [file.file for file in catalog(ask).files] == [EXAMPLE]


def test_an_answer_that_failed_lets_the_file_go(sound: Path, tmp_path: Path) -> None:
    """Without waiting for the garbage collector: the next change would find it locked."""
    ask, place = spoilt(sound, tmp_path)
    put(place, "text", "value", "x'ff'")
    collecting = gc.isenabled()
    gc.disable()
    try:
        failed = {name for name, answer in answers(ask) if answer.status_code == 422}
        with closing(sqlite3.connect(place, timeout=0, isolation_level=None)) as connection:
            connection.execute("BEGIN EXCLUSIVE")
    finally:
        if collecting:
            gc.enable()
    assert failed >= {"skeleton", "node", "POST match"}


CODES = {
    ("role", "role"): CallRole,
    ("node", "kind"): Kind,
    ("node", "grade"): Grade,
    ("node", "direction"): Direction,
    ("tensor", "section"): Section,
    ("suspect", "strength"): Strength,
}


@pytest.mark.parametrize(("table", "column"), CODES)
def test_the_number_behind_the_last_code_is_refused_as_any_other(
    sound: Path, tmp_path: Path, table: str, column: str
) -> None:
    last = max(CODES[table, column])
    refused = []
    for place, value in enumerate((last + 1, last + 100)):
        ask, file = spoilt(sound, tmp_path / str(place))
        put(file, table, column, str(value))
        refused.append({name for name, answer in answers(ask) if answer.status_code == 422})
    assert refused[0] == refused[1]
    assert refused[0]


def spoilt(sound: Path, folder: Path) -> tuple[Ask, Path]:
    place = folder / "logs" / EXAMPLE
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(sound, place)
    return client_of(folder / "logs"), place


@pytest.mark.slow
def test_any_value_in_any_column_is_answered(sound: Path, tmp_path: Path) -> None:
    found = []
    asked = 0
    for number, (table, column) in enumerate(columns(sound)):
        for value in VALUES[number % 3 :: 3]:  # what one column is spared, its neighbours get
            ask, place = spoilt(sound, tmp_path)
            try:
                put(place, table, column, value)
            except sqlite3.IntegrityError:
                continue  # the schema itself forbids it
            for name, answer in answers(ask):
                asked += 1
                if answer.status_code not in FINE:
                    found.append((table, column, value, name, answer.status_code))
    assert not found
    assert asked > 15_000
