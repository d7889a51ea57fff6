"""Suspects of a file that may hold anything, and of one from before they had ranks."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from msprobe_builder.command.main import main
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.verdict import read_verdict
from msprobe_builder.facts.fact import Facts, encode, fact


def changed(database: Path, folder: Path, *statements: str) -> Path:
    path = Path(shutil.copy(database, folder / "copy.vis.db"))
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return path


@pytest.mark.parametrize("command", ["verdict", "report"])
@pytest.mark.parametrize(
    "change",
    [
        *(f"ranks = {value}" for value in ("'x'", "''", "'1,'", "'-1'", "x'ff00'", "1.5")),
        *("followers = 'x'", "followers = -1", "error = 'x'", "source = x'00'", "evidence = x'00'"),
    ],
)
def test_what_cannot_stand_there_is_damage(
    command: str,
    change: str,
    demo_database: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = changed(demo_database, tmp_path, f"UPDATE suspect SET {change}")
    output = ["-o", str(tmp_path / "page.html")] if command == "report" else []
    assert main([command, str(path), *output]) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert f"{path}" in told
    assert "is damaged" in told


@pytest.mark.parametrize(("value", "ranks"), [("'3,1,3'", [1, 3]), ("NULL", [])])
def test_ranks_are_told_in_order(
    value: str,
    ranks: list[int],
    demo_database: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = changed(demo_database, tmp_path, f"UPDATE suspect SET ranks = {value}")
    assert main(["verdict", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["ranks"] for one in found["suspects"]] == [ranks] * len(found["suspects"])
    assert found["suspects"]


@pytest.mark.parametrize(
    ("said", "probability"),
    [
        ((fact("probability", percent=37),), 0.37),
        ((fact("run_again.passed"), fact("probability", percent=100)), 1.0),
        ((fact("probability", percent="x"),), None),
        ((fact("run_again.passed"),), None),
    ],
)
def test_the_probability_is_the_one_that_is_told(
    said: Facts, probability: float | None, demo_database: Path, tmp_path: Path
) -> None:
    path = changed(demo_database, tmp_path, f"UPDATE suspect SET evidence = '{encode(said)}'")
    with opened(path) as connection:
        verdict = read_verdict(connection)
    assert verdict is not None
    assert {one.probability for one in verdict.suspects} == {probability}


def test_a_file_from_before_there_were_ranks_has_the_same_verdict(
    demo_database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = changed(
        demo_database,
        tmp_path,
        "ALTER TABLE suspect DROP COLUMN ranks",
        "PRAGMA user_version = 9",
    )
    told = []
    for one in (demo_database, path):
        assert main(["verdict", str(one), "--json"]) == 0
        told.append(capsys.readouterr().out)
    assert told[0].replace(str(demo_database), str(path)) == told[1]
    assert main(["report", str(path), "-o", str(tmp_path / "page.html")]) == 0
