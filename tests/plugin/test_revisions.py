"""What a change says the revision of the file is now."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

from msprobe_builder.database.file import read_file
from tb_graph_ascend.files.writing import write

FILE = "demo.vis.db"


def test_every_change_tells_the_revision_that_it_made(demo_database: Path, tmp_path: Path) -> None:
    """Its counter is hexadecimal: twenty in a row pass a digit's end."""

    database = Path(shutil.copy(demo_database, tmp_path / FILE))

    def count_up(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE meta SET value = value || '0' WHERE key = 'created_at'")

    for _ in range(20):
        file = read_file(FILE, database)
        assert file is not None
        _, after = write(file, file.revision, count_up, dry_run=False)
        now = read_file(FILE, database)
        assert now is not None
        assert after == now.revision != file.revision
