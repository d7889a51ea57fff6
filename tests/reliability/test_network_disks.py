"""What network file systems forbid: write-ahead logs, shared memory, files mapped into memory."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.plugin.conftest import catalog, client_of

FILE = "a.vis.db"
LEGACY = b"\x01\x01"  # bytes 18 and 19 of a file that is read and written with a rollback journal
# Looks at everything and changes something; then says which files it has mapped.
USE = """
import sys
from pathlib import Path
from tests.plugin.changing import change, operation, report
from tests.plugin.conftest import client_of
folder = Path(sys.argv[1])
ask = client_of(folder)
place = {"file": "a.vis.db", "step": 0, "rank": 0}
for side in ("npu", "bench"):
    assert ask("skeleton", **place, side=side).status_code == 200
report(change(ask, "a.vis.db", operation(5, 5, "UNMATCH")))
maps = Path("/proc/self/maps").read_text()
print([line for line in maps.splitlines() if str(folder) in line])
"""


def test_a_database_is_built_and_changed_with_a_rollback_journal(
    demo_database: Path, tmp_path: Path
) -> None:
    database = Path(shutil.copy(demo_database, tmp_path / FILE))
    assert database.read_bytes()[18:20] == LEGACY
    done = subprocess.run(
        [sys.executable, "-c", USE, str(tmp_path)], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"
    assert database.read_bytes()[18:20] == LEGACY
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_the_folder_may_hold_what_a_log_would_be_called(
    demo_database: Path, tmp_path: Path, suffix: str
) -> None:
    """A directory there would fail whoever tried to make such a file."""
    shutil.copy(demo_database, tmp_path / FILE)
    (tmp_path / f"{FILE}{suffix}").mkdir()
    if suffix == "-wal":  # which might hold changes: said, and nothing is read past it
        assert catalog(client_of(tmp_path)).files[0].problem.code == "unfinished"
        return
    subprocess.run([sys.executable, "-c", USE, str(tmp_path)], check=True, capture_output=True)
    with closing(sqlite3.connect(tmp_path / FILE)) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("delete",)
