"""Opening a .vis.db to answer a request; trouble with it becomes a ProblemError."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http import HTTPStatus
from pathlib import Path

from msprobe_builder.database import open as checked
from msprobe_builder.database.problems import DamagedError as DamagedError
from msprobe_builder.database.problems import FileError, file_error
from msprobe_builder.database.verify import findings
from tb_graph_ascend.files.discover import DatabaseFile, read_file
from tb_graph_ascend.files.open_files import held_open
from tb_graph_ascend.limits import BUSY_SECONDS, QUERY_SECONDS
from tb_graph_ascend.problems import ProblemError, cannot_show, try_again

# What values of a type or size raise that nothing of ours writes.
UNEXPECTED = (ArithmeticError, LookupError, TypeError, ValueError)

_log = logging.getLogger(__name__)


@contextmanager
def open_database(file: DatabaseFile) -> Iterator[sqlite3.Connection]:
    """A connection that reads ``file`` at its revision; trouble ends in a ProblemError."""
    check_header(file)
    try:
        with held_open(file.path), closing(_connect(file)) as connection:
            now = read_file(file.name, file.path)
            if now is None or now.revision != file.revision:
                raise try_again(
                    "changed", f"{file.name} was replaced while it was read.", "Load it again."
                )
            yield connection
    except (sqlite3.Error, DamagedError, FileError, OSError) as error:
        raise problem_of(file, error) from error
    except UNEXPECTED as error:
        blame(file, error)
        raise


def blame(file: DatabaseFile, error: Exception) -> None:
    """ProblemError if the file is to blame for an exception that nobody foresaw.

    It is when something is wrong with it; that a sound file cannot be shown is a fault of ours.
    """
    try:
        with held_open(file.path), closing(_connect(file)) as connection:
            found = next(findings(connection), None)
    except (sqlite3.Error, DamagedError, FileError, OSError) as trouble:
        raise problem_of(file, trouble) from error
    if found is not None:
        _log.warning("Could not answer for %s, which is damaged: %s", file.path, found)
        raise problem_of(file, DamagedError(found.rstrip("."))) from error


def check_header(file: DatabaseFile) -> None:
    """Refuse what can be refused by the first hundred bytes alone."""
    if not file.header and (file.size or not file.may_be_read):
        raise cannot_show(
            "no_permission",
            f"{file.name} may not be read by the user who runs TensorBoard.",
            f"Allow it: chmod a+r {file.name}",
        )
    try:
        checked.check_header(file.name, file.header, file.size)
    except FileError as error:
        raise problem_of(file, error) from error


def _connect(file: DatabaseFile) -> sqlite3.Connection:
    mode = checked.read_mode(file.name, file.path, file.header)
    connection = connect(file.path, mode, BUSY_SECONDS)
    try:
        checked.prepare_reading(connection, file.name)
    except BaseException:
        connection.close()
        raise
    return connection


def connect(path: Path, mode: str, busy_seconds: float) -> sqlite3.Connection:
    """A connection that trusts nothing in the file and gives up after a while."""
    return checked.connect(path, mode, busy_seconds, QUERY_SECONDS)


def problem_of(
    file: DatabaseFile, error: sqlite3.Error | DamagedError | FileError | OSError
) -> ProblemError:
    """What an error that SQLite or the content of a file has caused means to the user."""
    found = error if isinstance(error, FileError) else file_error(file.name, error)
    status = HTTPStatus.SERVICE_UNAVAILABLE if found.may_pass else HTTPStatus.UNPROCESSABLE_ENTITY
    if found.code == "disk_full":
        status = HTTPStatus.INSUFFICIENT_STORAGE
    return ProblemError(status, found.code, found.message, found.remedy)
