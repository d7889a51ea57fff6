"""Finishing what a program left undone that was killed while it wrote to a database.

SQLite does so itself when somebody who may write opens the file; the viewer only reads, so it
would find the file unreadable instead.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from tb_graph_ascend.database import BUSY_SECONDS, connect
from tb_graph_ascend.discover import DatabaseFile, read_file
from tb_graph_ascend.open_files import held_open
from tb_graph_ascend.problems import cannot_show

# Ends a journal that names another file, which SQLite would then open and may delete.
_NAMES_ANOTHER = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"


def recovered(file: DatabaseFile) -> DatabaseFile:
    """The file with all changes complete or taken back; usually there is nothing to do."""
    journal = file.path.with_name(file.path.name + "-journal")
    if not _may_be_needed(journal):
        return file
    if not (os.access(file.path, os.W_OK) and os.access(file.path.parent, os.W_OK)):
        return file
    try:
        with held_open(file.path), closing(connect(file.path, "mode=rw", BUSY_SECONDS)) as database:
            database.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except (sqlite3.Error, OSError):
        return file
    return read_file(file.name, file.path) or file


def _may_be_needed(journal: Path) -> bool:
    try:
        with journal.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            if size < len(_NAMES_ANOTHER):
                return False
            stream.seek(size - len(_NAMES_ANOTHER))
            if stream.read() == _NAMES_ANOTHER:
                raise cannot_show(
                    "unfinished",
                    f"{journal.name} belongs to an unfinished change of several files.",
                    "Open the file with the program that wrote to it.",
                )
    except OSError:
        return False
    return True
