"""The schema, its documentation and its views."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest
from sqlite_utils import Database

from msprobe_builder.metrics.comparison import METRICS
from msprobe_builder.metrics.grading import STATISTICS_PROFILE
from msprobe_builder.store.gather import _COLUMNS
from msprobe_builder.store.writer import SCHEMA_VERSION, create

DOCUMENT = Path(__file__).parents[3] / "docs" / "database.md"


@pytest.fixture
def database(tmp_path: Path) -> Database:
    connection = create(tmp_path / "empty.db", STATISTICS_PROFILE)
    connection.execute("COMMIT")
    return Database(connection)


def _documented() -> dict[str, set[str]]:
    """Columns of each ``### name`` section: the code words in the first cell of its table."""
    result = {}
    for section in re.split(r"^### ", DOCUMENT.read_text("utf-8"), flags=re.M)[1:]:
        name, _, text = section.partition("\n")
        cells = re.findall(r"^\| (`[^|]*) \|", text, flags=re.M)
        columns: set[str] = set()
        for cell in cells:
            words = re.findall(r"`(\w+)`", cell)
            if "…" in cell:  # max_diff … norm_diff
                suffix = words[0].removeprefix("max")
                words = [statistic + suffix for statistic in ("max", "min", "mean", "norm")]
            columns.update(words)
        result[name] = columns
    return result


def test_every_column_is_documented(database: Database) -> None:
    documented = _documented()
    actual = {
        name: {column.name for column in database[name].columns}
        for name in (*database.table_names(), *database.view_names())
    }
    assert actual == documented


def test_version_and_identity(database: Database) -> None:
    assert database.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION
    assert database.execute("PRAGMA application_id").fetchone()[0] == 0x4D535042


def test_metric_columns_are_in_the_order_of_nan_flags(database: Database) -> None:
    columns = [column.name for column in database["comparison"].columns]
    start = columns.index(METRICS[0])
    assert tuple(columns[start : start + len(METRICS)]) == METRICS


def test_gather_translates_every_reference(database: Database) -> None:
    for name in database.table_names():
        if name in ("meta", "text", "grade", "unmatched_reason", "edit", "unmatched_before"):
            continue
        table = database.table(name)
        references = {key.column for key in table.foreign_keys if key.other_table != "grade"}
        references -= {"reason"}
        assert references <= set(_COLUMNS[name]), name


def test_real_database(demo_database: Path) -> None:
    connection = sqlite3.connect(f"file:{demo_database}?mode=ro", uri=True)
    assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
    counts = [
        connection.execute(f"SELECT count(*) FROM {left}").fetchone()
        == connection.execute(f"SELECT count(*) FROM {right}").fetchone()
        for left, right in (("node_view", "node"), ("tensor_view", "tensor"))
    ]
    assert counts == [True, True]
    # Brute force over parents: the roll-ups count what lies below.
    nodes = connection.execute("SELECT node_id, parent_id, grade FROM node").fetchall()
    below: dict[int, list[int]] = {}
    parent_of = {node: parent for node, parent, _ in nodes}
    for node, _, grade in nodes:
        above = parent_of[node]
        while above is not None:
            below.setdefault(above, []).append(grade)
            above = parent_of[above]
    names = ("ungraded", "ok", "slight", "moderate", "serious", "severe", "unmatched")
    stored = {
        row[0]: row[1:]
        for row in connection.execute(f"SELECT node_id, {', '.join(names)} FROM rollup")
    }
    assert stored == {
        node: tuple(grades.count(grade) for grade in range(len(names)))
        for node, grades in below.items()
    }


def test_nan_and_infinity_survive(dumps: Path, build_database: object) -> None:
    assert callable(build_database)
    database = build_database(dumps / "llama_statistics_nan_weight" / "step0" / "rank")
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    dump = (dumps / "llama_statistics_nan_weight/step0/rank/dump.json").read_text()
    shown = connection.execute(
        "SELECT sum(max = 'NaN') + sum(min = 'NaN') + sum(mean = 'NaN') + sum(norm = 'NaN'),"
        " sum(mean = -9e999) FROM tensor_view"
    ).fetchone()
    assert shown == (dump.count(": NaN"), len(re.findall(r'"Mean": -Infinity', dump)))
    assert shown[0] > 0
    assert shown[1] > 0
