"""The one place that opens database files, as the commands of the builder meet it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from msprobe_builder.command.main import main
from msprobe_builder.database.connection import store
from msprobe_builder.database.file import read_file
from msprobe_builder.database.open import found, locked, opened, reading, writing
from msprobe_builder.files.problems import FileError

DIE_IN_THE_MIDDLE = """
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("PRAGMA cache_size = 1")
database.execute("BEGIN IMMEDIATE")
database.execute("UPDATE node SET grade = 5, error = 1.0")
database.execute("UPDATE tensor SET max = 7")
os.kill(os.getpid(), 9)
"""
WRITE = """
import sqlite3, sys
sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None).execute("BEGIN IMMEDIATE")
"""
COMMANDS = {
    "report": ["-o", "new.html"],
    "page": ["-o", "new.html"],
    "export": ["-o", "new.csv"],
    "upgrade": ["-o", "new.vis.db"],
    "verdict": [],
}


@pytest.fixture
def database(demo_database: Path, tmp_path: Path) -> Path:
    """A copy of the demo's database."""
    return Path(shutil.copy(demo_database, tmp_path / "demo.vis.db"))


def run(script: str, path: Path) -> str:
    """What another program says that does so to the file."""
    command = [sys.executable, "-c", script, str(path)]
    return subprocess.run(command, check=False, capture_output=True, text=True).stderr


@pytest.fixture
def torn(database: Path) -> Path:
    """A file, half changed, beside the journal of a killed program."""
    before = database.read_bytes()
    run(DIE_IN_THE_MIDDLE, database)
    assert database.read_bytes() != before
    assert journal_of(database).stat().st_size
    return database


def journal_of(path: Path) -> Path:
    return path.with_name(path.name + "-journal")


@pytest.mark.parametrize("command", COMMANDS)
def test_who_only_reads_says_that_a_change_was_left_half_done(
    torn: Path, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(torn.parent)
    before = torn.read_bytes(), journal_of(torn).read_bytes()
    assert main([command, str(torn), *COMMANDS[command]]) == 1
    said = capsys.readouterr().err
    assert "A program was killed while it wrote to" in said
    assert "quick_check" in said
    assert (torn.read_bytes(), journal_of(torn).read_bytes()) == before


def test_who_writes_takes_back_what_was_left_half_done(torn: Path, demo_database: Path) -> None:
    with writing(found(torn, may_write=True)) as connection:
        [[worst]] = connection.execute("SELECT max(error) FROM node WHERE grade < 5")
    assert worst < 1
    assert not journal_of(torn).exists()
    assert torn.read_bytes() == demo_database.read_bytes()


def test_who_writes_leaves_the_journal_of_an_earlier_file_alone(torn: Path) -> None:
    os.utime(journal_of(torn), (1_000_000_000, 1_000_000_000))  # long before the file was built
    before = torn.read_bytes(), journal_of(torn).read_bytes()
    with pytest.raises(FileError) as caught:
        found(torn, may_write=True)
    assert caught.value.code == "left_over_journal"
    assert (torn.read_bytes(), journal_of(torn).read_bytes()) == before


def test_reading_a_locked_file_does_not_unlock_it(database: Path) -> None:
    """A descriptor that is closed ends all locks that its process has on the file."""
    with locked(database):
        assert "locked" in run(WRITE, database)
        with opened(database, as_it_is=True):
            pass
        assert "locked" in run(WRITE, database)
    assert not run(WRITE, database)


def test_a_file_that_another_one_took_the_place_of_is_not_read(database: Path) -> None:
    seen = found(database)
    with reading(seen):
        pass
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("UPDATE meta SET value = '' WHERE key = 'task'")
        connection.commit()
    with pytest.raises(FileError) as caught, reading(seen):
        pass
    assert (caught.value.code, caught.value.may_pass) == ("changed", True)


def test_a_file_that_went_away_is_said_to_have_gone(database: Path) -> None:
    seen = found(database)
    database.unlink()
    with pytest.raises(FileError) as caught, reading(seen):
        pass
    assert (caught.value.code, caught.value.may_pass) == ("gone", True)
    assert read_file("demo", database) is None


def test_trouble_of_somebody_else_is_not_blamed_on_the_file(database: Path) -> None:
    with pytest.raises(PermissionError), opened(database):
        raise PermissionError(13, "Permission denied", "elsewhere")


def test_a_change_is_all_there_or_not_at_all(database: Path) -> None:
    before = database.read_bytes()
    with writing(found(database)) as connection:
        connection.execute("DELETE FROM match")  # and does not store it
    assert database.read_bytes() == before
    with pytest.raises(KeyError):
        _fail_in_the_middle(database)
    assert database.read_bytes() == before
    with writing(found(database)) as connection:
        connection.execute("DELETE FROM match")
        store(connection)
    with opened(database) as connection:
        assert not connection.execute("SELECT * FROM match").fetchall()


def _fail_in_the_middle(database: Path) -> None:
    with writing(found(database)) as connection:
        connection.execute("DELETE FROM match")
        raise KeyError


def test_a_file_that_may_not_be_read_is_not_called_empty(database: Path) -> None:
    seen = replace(found(database), header=b"", may_be_read=False)
    for size in (seen.size, 0):
        with pytest.raises(FileError) as caught, reading(replace(seen, size=size)):
            pass
        assert caught.value.code == "no_permission"
