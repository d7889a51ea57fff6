"""Opening a .vis.db to answer a request; trouble with it becomes a ProblemError."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from msprobe_builder.database.file import DatabaseFile
from msprobe_builder.database.findings import findings
from msprobe_builder.database.open import UNEXPECTED, reading
from msprobe_builder.database.problems import damaged, file_error
from msprobe_builder.database.recover import recovered
from msprobe_builder.facts.wording import ENGLISH, tell
from msprobe_builder.files.problems import FileError
from tb_graph_ascend.limits import BUSY_SECONDS, QUERY_SECONDS
from tb_graph_ascend.problems import problem_of

_log = logging.getLogger(__name__)


@contextmanager
def open_database(file: DatabaseFile) -> Iterator[sqlite3.Connection]:
    """A connection that reads ``file`` at its revision; trouble ends in a ProblemError."""
    try:
        with reading(file, BUSY_SECONDS, QUERY_SECONDS) as connection:
            yield connection
    except (FileError, OSError) as error:
        raise problem_of(in_words(file, error)) from error
    except UNEXPECTED as error:
        blame(file, error)
        raise


def recover(file: DatabaseFile, *, may_write: bool) -> DatabaseFile:
    """The file with all changes complete or taken back; ProblemError where that is impossible."""
    try:
        return recovered(file, may_write=may_write)
    except FileError as error:
        raise problem_of(error) from error


def blame(file: DatabaseFile, error: Exception) -> None:
    """ProblemError if the file is to blame for an exception that nobody foresaw.

    It is when something is wrong with it; that a sound file cannot be shown is a fault of ours.
    """
    try:
        with reading(file, BUSY_SECONDS, QUERY_SECONDS) as connection:
            found = next(findings(connection), None)
    except (FileError, OSError) as trouble:
        raise problem_of(in_words(file, trouble)) from error
    if found is not None:
        said = tell(found, ENGLISH)
        _log.warning("Could not answer for %s, which is damaged: %s", file.path, said)
        raise problem_of(damaged(file.name, said.rstrip("."))) from error


def in_words(file: DatabaseFile, error: FileError | OSError) -> FileError:
    """What the error means that reading or writing ``file`` has ended in."""
    return error if isinstance(error, FileError) else file_error(file.name, error)
