"""verify finds what is wrong, finds nothing in sound files, and saves matches of damaged ones."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from msprobe_builder.command.main import main
from msprobe_builder.match.match_file import read_match_file
from tests.builder.rematch.rebuild import matched


@pytest.fixture
def database(demo_database: Path, tmp_path: Path) -> Path:
    """A copy of the demo's database."""
    return Path(shutil.copy(demo_database, tmp_path / "demo.vis.db"))


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def test_a_sound_file_is_whole(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = database.read_bytes()
    assert main(["verify", str(database)]) == 0
    assert capsys.readouterr().out == f"{database} is whole.\n"
    assert main(["verify", str(database), "--language", "zh"]) == 0
    assert capsys.readouterr().out == f"{database} 完好。\n"
    assert database.read_bytes() == before
    assert [path.name for path in database.parent.iterdir()] == [database.name]


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("DROP TABLE origin", "table origin is missing."),
        ("DROP INDEX edit_npu", None),
        ("CREATE TRIGGER t AFTER DELETE ON match BEGIN DELETE FROM text; END", "trigger, t"),
        ("DELETE FROM node WHERE node_id = 9", "A graph has other nodes than it says: 1."),
        ("UPDATE node SET subtree_end = 1099511627776 WHERE node_id = 9", "does not enclose"),
        ("UPDATE node SET subtree_end = 3 WHERE node_id = 9", "ends before it begins: 9."),
        ("UPDATE node SET parent_id = 500 WHERE node_id = 9", "does not enclose its child: 9."),
        ("UPDATE node SET parent_id = NULL WHERE node_id = 9", "exactly one root"),
        ("UPDATE match SET bench_node = 1 WHERE npu_node = 9", "does not join the two sides"),
        ("UPDATE match SET bench_node = 99999 WHERE npu_node = 9", "that is not there"),
        ("UPDATE graph SET rank = 5 WHERE side = 1", "does not join the two sides"),
        ("UPDATE graph SET node_count = node_count - 1", "A node lies outside its graph"),
        ("INSERT INTO unmatched VALUES (9, 1, NULL, NULL)", "both matched and unmatched: 9."),
        ("UPDATE node SET grade = 6 WHERE node_id = 9", "graded unmatched: 9."),
        ("UPDATE node SET grade = 'bad' WHERE node_id = 9", "none of the seven: 9."),
        ("UPDATE node SET error = 2 WHERE node_id = 9", "outside 0 to 1: 9."),
        ("UPDATE text SET value = x'ff' WHERE text_id = 9", "A text is none: 9."),
        ("DELETE FROM match WHERE npu_node = 9", "belongs to no match: 9."),
        ("UPDATE comparison SET nan_flags = 'x' WHERE npu_node = 9", "Column nan_flags of table"),
        ("UPDATE graph SET micro_steps = 1e300 WHERE side = 0", "such as one of type real"),
    ],
)
def test_each_damage_is_named(
    database: Path, capsys: pytest.CaptureFixture[str], statement: str, sentence: str | None
) -> None:
    execute(database, statement)
    assert main(["verify", str(database)]) == (0 if sentence is None else 1)
    said = capsys.readouterr().err
    assert (sentence or "") in said
    assert "Traceback" not in said


def test_every_overwritten_page_is_found(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = database.read_bytes()
    missed = []
    for place in range(4096, len(whole), 4096 * 17):
        database.write_bytes(whole[:place] + b"\xaa" * 4096 + whole[place + 4096 :])
        if main(["verify", str(database)]) == 0:
            missed.append(place)
    assert not missed
    assert "Traceback" not in capsys.readouterr().err


def test_matches_of_a_damaged_file_are_saved(database: Path, tmp_path: Path) -> None:
    pairs = dict(list(matched(database).items())[5:25])
    execute(
        database,
        "UPDATE match SET source = 3 WHERE npu_node IN (SELECT node_id FROM node_view WHERE"
        f" side = 'npu' AND name IN ({', '.join(map(repr, pairs))}))",
    )
    with closing(sqlite3.connect(database)) as connection:
        [[page]] = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'tensor'")
    content = bytearray(database.read_bytes())
    content[(page - 1) * 4096 : page * 4096] = b"\xaa" * 4096
    database.write_bytes(content)
    saved = tmp_path / "saved.json"
    assert main(["verify", str(database), "--save-matches", str(saved)]) == 1
    assert {one.npu: one.bench for one in read_match_file(saved)} == pairs
    assert all(
        (one["step"], one["rank"]) == (0, 0) for one in json.loads(saved.read_text())["matches"]
    )


def test_a_missing_file_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(tmp_path / "a.vis.db")]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_a_file_whose_matches_cannot_be_read_saves_none(
    database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(database)) as connection:
        pages = connection.execute(
            "SELECT rootpage FROM sqlite_schema WHERE tbl_name = 'match' AND rootpage > 0"
        ).fetchall()
    content = bytearray(database.read_bytes())
    for (page,) in pages:
        content[(page - 1) * 4096 : page * 4096] = b"\xaa" * 4096
    database.write_bytes(content)
    saved = tmp_path / "saved.json"
    assert main(["verify", str(database), "--save-matches", str(saved)]) == 1
    assert "Traceback" not in capsys.readouterr().err
    assert not saved.exists() or json.loads(saved.read_text())["matches"] == []
