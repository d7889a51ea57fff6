"""Files that cannot be shown: each kind is named, in the catalog and by the graph's routes."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from msprobe_builder.database.file import DatabaseFile
from msprobe_builder.database.migrations import SCHEMA_VERSION
from msprobe_builder.database.open import check_header
from msprobe_builder.files.problems import FileError
from tests.plugin.conftest import EXAMPLE, GOOD, Ask, catalog, problem_of, skeleton


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()


def foreign(path: Path) -> None:
    path.unlink()
    execute(path, "CREATE TABLE cookies (name)")


def of_another_builder(path: Path) -> None:
    path.unlink()
    execute(path, "CREATE TABLE tb_nodes (id)", "CREATE TABLE tb_config (id)")


def cut_off(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def overwritten_inside(path: Path) -> None:
    with path.open("r+b") as stream:
        stream.seek(4096)
        stream.write(b"\xaa" * (path.stat().st_size - 4096))


def without_a_table(path: Path) -> None:
    execute(path, "DROP VIEW tensor_view", "DROP VIEW node_view", "DROP TABLE match")


def with_a_table_run_by_code(path: Path) -> None:
    execute(
        path,
        "DROP VIEW tensor_view",
        "DROP VIEW node_view",
        "DROP TABLE match",
        "CREATE VIRTUAL TABLE match USING fts5 (npu_node, bench_node, source)",
    )


KINDS: dict[str, Callable[[Path], object]] = {
    "empty_file": lambda path: path.write_bytes(b""),
    "not_a_database": lambda path: path.write_text("hello " * 100, encoding="utf-8"),
    "truncated": cut_off,
    "foreign_database": foreign,
    "reference_format": of_another_builder,
    "newer_schema": lambda path: execute(path, f"PRAGMA user_version = {SCHEMA_VERSION + 1}"),
}
DAMAGES: dict[str, Callable[[Path], object]] = {
    "no version": lambda path: execute(path, "PRAGMA user_version = 0"),
    "overwritten inside": overwritten_inside,
    "without a table": without_a_table,
    "virtual table": with_a_table_run_by_code,
}
# Damage in rows that only the catalog reads.
DAMAGED_SUMMARIES = {
    "text for a number": "UPDATE rollup SET ok = 'many'",
    "unknown grade of the root": "UPDATE node SET grade = 7 WHERE parent_id IS NULL",
    "blob for a key": "UPDATE meta SET key = x'00' WHERE key = 'task'",
    "unknown side": "UPDATE graph SET side = 2 WHERE graph_id = 1",
    "unknown side of a finding": "UPDATE diagnostic SET side = 3",
    "text for a bound": "UPDATE grade SET low = 'none'",
}
# Damage in rows that only the graph's own routes read.
DAMAGED_GRAPHS = {
    "text for a number": "UPDATE node SET micro_step = 'first' WHERE node_id = 12",
    "a number with a fraction": "UPDATE node SET micro_step = 0.5 WHERE node_id = 12",
    "negative call": "UPDATE node SET call = -1 WHERE node_id = 14",
    "huge call": "UPDATE node SET call = 9223372036854775807 WHERE node_id = 14",
    "subtree beyond the graph": "UPDATE node SET subtree_end = 18 WHERE node_id = 12",
    "subtree before the node": "UPDATE node SET subtree_end = 11 WHERE node_id = 12",
    "node missing": "DELETE FROM node WHERE node_id = 15",
    "name missing": "DELETE FROM text WHERE text_id = 5",
    "partner elsewhere": "UPDATE match SET bench_node = 999 WHERE npu_node = 12",
    "more nodes than there are": "UPDATE graph SET node_count = 1000000 WHERE graph_id = 1",
    "unmatched yet matched": "UPDATE node SET grade = 6 WHERE node_id = 12",
    "matched without a partner": "DELETE FROM match WHERE npu_node = 12",
    "unknown kind": "UPDATE node SET kind = 9 WHERE node_id = 12",
    "text for an error": "UPDATE node SET error = 'none' WHERE node_id = 12",
    "blob for a grade": "UPDATE node SET grade = x'01' WHERE node_id = 12",
    "text for a partner": "UPDATE match SET bench_node = 'its twin' WHERE npu_node = 12",
    "partner is itself": "UPDATE match SET bench_node = 12 WHERE npu_node = 12",
    "numbers beyond all sums": "UPDATE node SET call = 9223372036854775807 WHERE graph_id = 1",
}
DAMAGED_NODES = {
    "parent after the child": "UPDATE node SET parent_id = 17 WHERE node_id = 13",
    "parent is itself": "UPDATE node SET parent_id = 14 WHERE node_id = 14",
    "blob for a text": "UPDATE text SET value = x'ff00' WHERE text_id = 23",
    "text for a statistic": "UPDATE tensor SET max = 'big' WHERE node_id = 14",
    "unknown section": "UPDATE tensor SET section = 4 WHERE node_id = 14",
    "unknown match source": "UPDATE match SET source = 9 WHERE npu_node = 14",
    "partner in another graph": "UPDATE match SET bench_node = 206 WHERE npu_node = 14",
    "negative ordinal": "UPDATE comparison SET bench_ordinal = -1 WHERE npu_ordinal = 3",
    "text for a line": "UPDATE frame SET line = 'last' WHERE frame_id = 1",
}


def assert_named(ask: Ask, code: str) -> None:
    [file] = catalog(ask).files
    assert file.problem.code == code
    assert EXAMPLE in file.problem.message
    assert file.problem.message.endswith(".")
    assert file.problem.remedy
    assert not file.graphs
    for name in ("skeleton", "node"):
        response = ask(name, **GOOD[name])
        assert response.status_code == 422
        assert problem_of(response) == file.problem


@pytest.mark.parametrize("code", KINDS)
def test_a_file_of_another_kind_is_named(ask: Ask, logdir: Path, code: str) -> None:
    KINDS[code](logdir / EXAMPLE)
    assert_named(ask, code)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named(ask: Ask, logdir: Path, damage: str) -> None:
    DAMAGES[damage](logdir / EXAMPLE)
    assert_named(ask, "damaged")


def damage_rows(path: Path, statement: str) -> None:
    execute(path, "PRAGMA ignore_check_constraints = ON", statement)


@pytest.mark.parametrize("damage", DAMAGED_SUMMARIES)
def test_a_damaged_summary_is_named_in_the_catalog(ask: Ask, logdir: Path, damage: str) -> None:
    damage_rows(logdir / EXAMPLE, DAMAGED_SUMMARIES[damage])
    [file] = catalog(ask).files
    assert file.problem.code == "damaged"
    assert not file.graphs


@pytest.mark.parametrize(
    ("column", "value"),
    [("direction", 3), ("call", -1), ("kind", 9), ("micro_step", -1), ("overflow", 4)],
)
def test_the_damaged_column_is_named(ask: Ask, logdir: Path, column: str, value: int) -> None:
    damage_rows(logdir / EXAMPLE, f"UPDATE node SET {column} = {value} WHERE node_id = 14")
    assert f" node.{column} " in f"{problem_of(ask('skeleton', **GOOD['skeleton'])).message} "


@pytest.mark.parametrize("damage", DAMAGED_GRAPHS)
def test_a_damaged_graph_is_refused_whole(ask: Ask, logdir: Path, damage: str) -> None:
    damage_rows(logdir / EXAMPLE, DAMAGED_GRAPHS[damage])
    response = ask("skeleton", **GOOD["skeleton"])
    assert response.status_code == 422
    assert problem_of(response).code == "damaged"
    assert skeleton(ask, step=1, rank=2).node_count == 2  # the others stay


@pytest.mark.parametrize("damage", DAMAGED_NODES)
def test_a_damaged_node_is_refused_alone(ask: Ask, logdir: Path, damage: str) -> None:
    damage_rows(logdir / EXAMPLE, DAMAGED_NODES[damage])
    response = ask("node", **GOOD["node"])
    assert response.status_code == 422
    assert problem_of(response).code == "damaged"
    assert ask("node", **{**GOOD["node"], "index": 5}).status_code == 200


def test_a_nearest_node_of_another_graph_is_damage(ask: Ask, logdir: Path) -> None:
    near = {**GOOD["node"], "index": 4}
    assert ask("node", **near).status_code == 200
    damage_rows(logdir / EXAMPLE, "UPDATE unmatched SET candidate_id = 206 WHERE node_id = 15")
    assert problem_of(ask("node", **near)).code == "damaged"


@pytest.mark.slow
def test_every_single_overwritten_byte_leaves_an_answer(ask: Ask, logdir: Path) -> None:
    content = (logdir / EXAMPLE).read_bytes()
    for place in range(0, len(content), 509):
        (logdir / EXAMPLE).write_bytes(
            content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :]
        )
        for name in GOOD:
            assert ask(name, **GOOD[name]).status_code in (200, 404, 422), (name, place)


def test_one_bad_file_does_not_hide_the_good_one(ask: Ask, logdir: Path) -> None:
    (logdir / "runs" / "bad.vis.db").write_bytes(b"")
    bad, good = catalog(ask).files
    assert bad.problem.code == "empty_file"
    assert good.graphs


def test_a_file_that_may_not_be_read_says_so() -> None:
    file = DatabaseFile("x.vis.db", Path("x.vis.db"), 4096, 0.0, "1", header=b"")
    with pytest.raises(FileError) as caught:
        check_header(file)
    assert caught.value.code == "no_permission"


WRITER = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute(sys.argv[2])
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def another_program(path: Path, statement: str) -> Iterator[None]:
    """Keep ``statement`` in force from another process."""
    command = [sys.executable, "-c", WRITER, str(path), statement]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "ready\n"
        yield
        process.communicate("")


def test_a_file_that_is_being_written_is_said_to_be_and_recovers(
    ask: Ask, logdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tb_graph_ascend.files.database.BUSY_SECONDS", 0.0)
    with another_program(logdir / EXAMPLE, "BEGIN EXCLUSIVE"):
        response = ask("skeleton", **GOOD["skeleton"])
        assert response.status_code == 503
        assert problem_of(response).code == "locked"
        assert catalog(ask).files[0].problem.code == "locked"
    assert skeleton(ask).node_count == 7
    assert not catalog(ask).files[0].HasField("problem")


def test_a_query_that_never_ends_is_ended(
    ask: Ask, logdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = logdir / EXAMPLE
    execute(
        path,
        "INSERT INTO frame SELECT value + 100, NULL, NULL, NULL, NULL FROM"
        " (WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n LIMIT 200000)"
        " SELECT value FROM n)",
        "INSERT INTO stack SELECT 1, frame_id, frame_id FROM frame WHERE frame_id > 100",
    )
    monkeypatch.setattr("tb_graph_ascend.files.database.QUERY_SECONDS", 0.0)
    response = ask("node", **GOOD["node"])
    assert response.status_code == 503
    assert problem_of(response).code == "too_slow"


def test_write_ahead_mode_of_another_program_is_read_without_a_trace(
    ask: Ask, logdir: Path
) -> None:
    execute(logdir / EXAMPLE, "PRAGMA journal_mode = WAL")
    assert skeleton(ask).node_count == 7
    assert [path.name for path in (logdir / "runs").iterdir()] == ["example.vis.db"]


def test_changes_that_are_only_in_a_write_ahead_log_are_not_ignored(ask: Ask, logdir: Path) -> None:
    execute(logdir / EXAMPLE, "PRAGMA journal_mode = WAL")
    with closing(sqlite3.connect(logdir / EXAMPLE)) as writer:
        writer.execute("UPDATE meta SET value = 'md5' WHERE key = 'task'")
        writer.commit()
        assert_named(ask, "unfinished")
