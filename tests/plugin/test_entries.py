"""What lies beside a good file, or in its place, takes neither it nor the others down."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.builder.rematch.rebuild import content
from tests.plugin.changing import change, operation, revision_of
from tests.plugin.conftest import EXAMPLE, GOOD, Ask, catalog, client_of, problem_of, skeleton
from tests.plugin.example import write_example

GOOD_FILE = "runs/good.vis.db"
SECONDS = 60  # a request that waits for a pipe waits for ever

ASK = """
import json, os, sys
from pathlib import Path
from tests.plugin.conftest import GOOD, catalog, client_of
ask = client_of(Path(sys.argv[1]))
if sys.argv[2] == "nobody":
    catalog(ask)
    os.setuid(65534)
print(json.dumps({
    "catalog": {one.file: one.problem.code for one in catalog(ask).files},
    "node": ask("node", **GOOD["node"]).status_code,
    "good": ask("node", **{**GOOD["node"], "file": "runs/good.vis.db"}).status_code,
}))
"""


def ask_apart(logdir: Path, user: str = "") -> dict[str, object]:
    """Ask a plugin in a process of its own, which may hang."""
    ended = subprocess.run(
        [sys.executable, "-c", ASK, str(logdir), user],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=SECONDS,
    )
    found: dict[str, object] = json.loads(ended.stdout)
    return found


@pytest.fixture
def two(logdir: Path) -> Path:
    """A log directory with a file that something happens to, and a good one."""
    write_example(logdir / GOOD_FILE)
    return logdir


@pytest.mark.parametrize("suffix", ["-journal", "-wal"])
def test_a_pipe_beside_a_file_is_named(two: Path, suffix: str) -> None:
    os.mkfifo(two / (EXAMPLE + suffix))
    found = ask_apart(two)
    assert found["catalog"] == {EXAMPLE: "unfinished", GOOD_FILE: ""}
    assert (found["node"], found["good"]) == (422, 200)


def test_a_file_that_became_a_pipe_has_gone(two: Path) -> None:
    ask = client_of(two)
    assert len(catalog(ask).files) == 2
    (two / EXAMPLE).unlink()
    os.mkfifo(two / EXAMPLE)
    assert problem_of(ask("node", **GOOD["node"])).code == "unknown_file"
    assert ask("node", **{**GOOD["node"], "file": GOOD_FILE}).status_code == 200
    assert [file.file for file in catalog(ask).files] == [GOOD_FILE]


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A log directory that a user without rights can reach."""
    with tempfile.TemporaryDirectory() as folder:
        logdir = Path(folder) / "logs"
        write_example(logdir / EXAMPLE)
        write_example(logdir / GOOD_FILE)
        Path(folder).chmod(0o755)
        yield logdir


@pytest.mark.skipif("os.geteuid() != 0", reason="only root can become somebody without rights")
def test_a_directory_that_may_be_listed_but_not_entered(open_to_all: Path) -> None:
    closed = open_to_all / "closed"
    write_example(closed / "a.vis.db")
    closed.chmod(0o444)
    found = ask_apart(open_to_all, "nobody")
    assert found["catalog"] == {EXAMPLE: "", GOOD_FILE: "", "closed/a.vis.db": "no_permission"}


def test_a_listing_that_breaks_off_keeps_what_it_had(
    two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scandir = os.scandir

    class Broken:
        def __init__(self, path: Path) -> None:
            self._listing = scandir(path)

        def __enter__(self) -> Broken:
            return self

        def __exit__(self, *_: object) -> None:
            self._listing.close()

        def __iter__(self) -> Iterator[os.DirEntry[str]]:
            yield next(self._listing)
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "scandir", Broken)
    assert len(catalog(client_of(two)).files) == 1


def write_journal(path: Path, content: bytes) -> Path:
    journal = path.with_name(path.name + "-journal")
    journal.write_bytes(content)
    return journal


def test_a_journal_of_several_files_is_the_trouble_of_one(two: Path) -> None:
    end = b"/x" + (2).to_bytes(4, "big") + b"\0" * 4 + bytes.fromhex("d9d505f920a163d7")
    write_journal(two / EXAMPLE, b"\0" * 512 + end)
    found = {file.file: file.problem.code for file in catalog(client_of(two)).files}
    assert found == {EXAMPLE: "unfinished", GOOD_FILE: ""}


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE meta ADD COLUMN more",
        "INSERT INTO meta VALUES (x'00', 1.5)",
        "UPDATE graph SET step = 'first' WHERE graph_id = 5",
        "UPDATE graph SET step = 1e300 WHERE graph_id = 5",
        "UPDATE diagnostic SET count = -1",
        "UPDATE rollup SET ok = x'00'",
    ],
)
def test_odd_rows_are_the_trouble_of_one(two: Path, statement: str) -> None:
    with closing(sqlite3.connect(two / EXAMPLE)) as database:
        database.execute("PRAGMA ignore_check_constraints = ON")
        database.execute(statement)
        database.commit()
    found = {file.file: file.problem.code for file in catalog(client_of(two)).files}
    assert found[GOOD_FILE] == ""
    assert found[EXAMPLE] in ("", "damaged")


def test_a_column_that_we_do_not_know_is_no_damage(two: Path) -> None:
    with closing(sqlite3.connect(two / EXAMPLE)) as database:
        database.execute("ALTER TABLE meta ADD COLUMN more")
    assert [file.problem.code for file in catalog(client_of(two)).files] == ["", ""]


DIE_IN_THE_MIDDLE = """
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("PRAGMA cache_size = 1")
database.execute("BEGIN IMMEDIATE")
database.execute("UPDATE node SET grade = 5, error = 1.0")
database.execute("UPDATE tensor SET max = 7")
database.execute("UPDATE text SET value = value || ' changed, and longer than it was before'")
os.kill(os.getpid(), 9)
"""


def torn(path: Path) -> Path:
    """Kill a program that writes to the file; the journal that it leaves."""
    subprocess.run([sys.executable, "-c", DIE_IN_THE_MIDDLE, str(path)], check=False)
    journal = path.with_name(path.name + "-journal")
    assert journal.stat().st_size
    return journal


@pytest.fixture
def database(demo_database: Path, tmp_path: Path) -> Path:
    """A copy of the demo's database that may be torn."""
    (tmp_path / "real").mkdir()
    return Path(shutil.copy(demo_database, tmp_path / "real" / "demo.vis.db"))


@pytest.mark.parametrize("readonly", [False, True])
def test_a_journal_of_an_earlier_file_is_not_written_into_a_new_one(
    database: Path, demo_database: Path, readonly: bool
) -> None:
    journal = torn(database)
    os.utime(journal, (1_000_000_000, 1_000_000_000))  # long before the new file is built
    database.unlink()
    shutil.copy(demo_database, database)
    ask = client_of(database.parent, readonly=readonly)
    before = database.read_bytes()
    for _ in range(2):
        [file] = catalog(ask).files
        assert file.problem.code == "left_over_journal"
    assert database.read_bytes() == before
    assert journal.exists()


def test_a_journal_of_a_file_with_other_pages_is_not_written_back(
    database: Path, logdir: Path
) -> None:
    """Told by the pages, whatever the clocks say."""
    journal = torn(database)
    shutil.copy(logdir / EXAMPLE, database)
    before = database.read_bytes()
    assert catalog(client_of(database.parent)).files[0].problem.code == "left_over_journal"
    assert database.read_bytes() == before
    assert journal.exists()


def test_a_torn_file_behind_a_link_is_mended(database: Path, tmp_path: Path) -> None:
    before = content(database)
    torn(database)
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "link.vis.db").symlink_to(database)
    [file] = catalog(client_of(logs)).files
    assert not file.HasField("problem"), file.problem
    assert content(database) == before


def test_a_torn_file_is_left_as_it_is_where_nothing_may_be_written(database: Path) -> None:
    before = content(database)
    journal = torn(database)
    half = database.read_bytes(), journal.read_bytes()
    ask = client_of(database.parent, readonly=True)
    [file] = catalog(ask).files
    assert file.problem.code == "unfinished"
    assert "killed" in file.problem.message
    assert (database.read_bytes(), journal.read_bytes()) == half
    assert not catalog(client_of(database.parent)).files[0].HasField("problem")
    assert content(database) == before


def test_a_path_that_sqlite_cannot_hold_is_not_called_damage(tmp_path: Path) -> None:
    folder = tmp_path
    for _ in range(4):
        folder = folder / ("long" * 50)
    folder.mkdir(parents=True)
    short = write_example(tmp_path / "short.vis.db")
    short.rename(folder / "a.vis.db")
    [file] = catalog(client_of(tmp_path)).files
    assert file.problem.code == "cannot_open"


def test_reading_goes_on_beside_a_journal_that_is_no_journal(two: Path) -> None:
    write_journal(two / EXAMPLE, b"\0" * 2000)
    assert skeleton(client_of(two)).node_count == 7


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE node SET subtree_end = 1099511627776 WHERE parent_id IS NOT NULL",
        "UPDATE node SET subtree_end = node_id - 1 WHERE parent_id IS NOT NULL",
        "UPDATE node SET subtree_end = node_id + 1 WHERE parent_id IS NOT NULL",
        "UPDATE node SET subtree_end = 'end' WHERE parent_id IS NOT NULL",
        "UPDATE graph SET node_count = 1099511627776",
    ],
)
def test_a_preview_on_a_damaged_hierarchy_ends(database: Path, statement: str) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(statement)
        connection.commit()
    ask = client_of(database.parent)
    before = database.read_bytes()
    wanted = operation(1, 1, descendants=True, replace=True)
    revision = ask_revision(ask)
    response = change(ask, "demo.vis.db", wanted, dry_run=True, revision=revision)
    assert response.status_code in (200, 404, 422)
    if response.status_code == 422:
        assert problem_of(response).code == "damaged"
    assert database.read_bytes() == before


def ask_revision(ask: Ask) -> str:
    return revision_of(ask, "demo.vis.db")
