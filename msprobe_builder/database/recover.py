"""Finishing what a program left undone that was killed while it wrote to a database.

SQLite does so itself when somebody who may write opens the file; whoever only reads would find
the file unreadable instead.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

from msprobe_builder.database.connection import connect, read_something
from msprobe_builder.database.file import DatabaseFile, is_writable, read_file
from msprobe_builder.database.journal import (
    belongs,
    beside,
    is_regular,
    may_be_hot,
    names_another,
    require_no_log,
)
from msprobe_builder.database.problems import is_busy
from msprobe_builder.files.problems import FileError
from msprobe_builder.files.regular import has_locks, held_open

_WAIT_SECONDS = 2.0  # for a program that writes just now

# Reading past a journal closes the file without regard to the locks of other threads.
_one_at_a_time = threading.Lock()


def recovered(file: DatabaseFile, *, may_write: bool) -> DatabaseFile:
    """The file with all changes complete or taken back; usually there is nothing to do.

    FileError when what lies beside the file stands in the way.
    """
    require_no_log(file)
    journal, status = beside(file.path, "-journal")
    if status is None:
        return file
    if not is_regular(status):
        raise FileError(
            "unfinished",
            f"{journal.name} beside {file.name} is no regular file.",
            f"Remove {journal.name}.",
        )
    try:
        if names_another(journal, status.st_size):
            raise FileError(
                "unfinished",
                f"{journal.name} belongs to an unfinished change of several files.",
                "Open the file with the program that wrote to it.",
            )
        if not may_be_hot(journal, status.st_size):
            return file
        with _one_at_a_time, held_open(file.path):
            if not has_locks(file.path):
                raise FileError(
                    "unfinished",
                    f"A program was killed while it wrote to {file.name}, and on a file system"
                    " without locks nobody can take back what it left half done.",
                    f"Copy it together with {journal.name} to a local disk.",
                )
            if _is_readable(file.path):
                return file  # somebody is writing just now, and SQLite sees to it
            if not belongs(file.path, journal, status):
                raise _left_over(file, journal)
            _recover(file, may_write=may_write)
    except PermissionError as error:
        raise FileError(
            "unfinished",
            f"{journal.name} beside {file.name} may not be read by the user who runs this program;"
            " it may hold what a killed program left half done.",
            f"Allow it with chmod a+r {journal.name}, or remove it if it is not of this file.",
        ) from error
    except OSError:
        return file  # gone meanwhile: SQLite says what is left to say
    return read_file(file.name, file.path) or file


def _is_readable(path: Path) -> bool:
    """Whether a reader needs no recovery; also when the file is locked or no database."""
    with closing(connect(path, "mode=ro", _WAIT_SECONDS)) as database:
        try:
            read_something(database)
        except sqlite3.OperationalError as error:
            return is_busy(error)
        except sqlite3.DatabaseError:
            return True
    return True


def _recover(file: DatabaseFile, *, may_write: bool) -> None:
    if not may_write or not is_writable(file):
        raise FileError(
            "unfinished",
            f"A program was killed while it wrote to {file.name}, and this one may not take back"
            " what it left half done.",
            "Have somebody open the file who may write it: sqlite3 FILE 'PRAGMA quick_check'",
        )
    with closing(connect(file.path, "mode=rw", _WAIT_SECONDS)) as database:
        try:
            read_something(database)
        except sqlite3.Error:
            return  # whoever reads the file next is told why


def _left_over(file: DatabaseFile, journal: Path) -> FileError:
    return FileError(
        "left_over_journal",
        f"{journal.name} is of an earlier file of this name and does not belong to {file.name}.",
        f"Move {journal.name} away.",
    )
