"""The schema, its documentation and its views."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlite_utils import Database

from msprobe_builder.base.codes import METRICS, Kind
from msprobe_builder.database.late_columns import complete
from msprobe_builder.database.layout import current_layout
from msprobe_builder.database.migrations import SCHEMA_VERSION
from msprobe_builder.database.read.names import NAME_SQL, read_names
from msprobe_builder.database.write.gather import references
from msprobe_builder.database.write.pair import create
from msprobe_builder.dump.names import parse_name
from msprobe_builder.metrics.grading import STATISTICS_PROFILE

DOCUMENT = Path(__file__).parents[3] / "docs" / "design" / "database.md"


@pytest.fixture
def database(tmp_path: Path) -> Database:
    connection = create(tmp_path / "empty.db", STATISTICS_PROFILE)
    complete(connection)
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
    assert tuple(column for column in columns if column in METRICS) == METRICS


def test_gather_moves_every_column_that_holds_an_id() -> None:
    """By name: what is called like an id, or like a node, is one."""
    others = {"name_id", "type_id", "dtype_id", "shape_id", "value_id", "note_id", "file_id"}
    others |= {"function_id", "source_id", "recipe_id", "stem_id", "maker_name_id"}
    nodes = {"parent_id", "subtree_end", "npu_node", "bench_node", "candidate_id", "partner_id"}
    nodes |= {"first_node", "giver_id", "maker_id"}
    for table, kinds in references().items():
        for column in current_layout().column_names(table):
            if column in others:
                assert kinds[column] == "text"
            elif column in nodes:
                assert kinds[column] == "node"
            elif column.endswith("_id"):
                assert kinds[column] == column.removesuffix("_id")
            else:
                assert column not in kinds or (table, column) == ("edit", "batch")


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


def test_names_are_the_same_in_every_grammar(demo_database: Path) -> None:
    """In the view, in the search's SQL and in Python; and they parse into what is stored."""
    with closing(sqlite3.connect(demo_database)) as connection:
        rows = connection.execute(
            f"SELECT node.node_id, node_name.name, {NAME_SQL}, kind, text.value, direction, call"
            " FROM node JOIN text ON text_id = stem_id JOIN node_name USING (node_id)"
        ).fetchall()
        names = read_names(connection, [row[0] for row in rows])
    assert {(kind, direction) for *_, kind, _, direction, _ in rows} >= {
        *((0, 0), (0, 1), (0, 2), (1, 1), (2, 0)),
    }
    for node, of_view, of_search, kind, stem, direction, call in rows:
        assert of_view == of_search == names[node]
        parsed = parse_name(of_view)
        assert (parsed.stem, parsed.direction, parsed.call) == (stem, direction, call or 0)
        assert parsed.kind == kind or kind == Kind.COLLECTION
