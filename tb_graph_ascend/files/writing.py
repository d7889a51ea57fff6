"""One transaction on a .vis.db: nothing of it is seen, or lost, before it is complete."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from http import HTTPStatus
from typing import TypeVar

from msprobe_builder.database.open import begin_writing, prepare_writing, roll_back, store
from msprobe_builder.database.problems import FileError, is_interrupted, is_read_only
from tb_graph_ascend.files.database import (
    UNEXPECTED,
    DamagedError,
    blame,
    check_header,
    connect,
    problem_of,
)
from tb_graph_ascend.files.discover import DatabaseFile, changes_of, read_file
from tb_graph_ascend.files.journal import real_path
from tb_graph_ascend.files.open_files import held_open
from tb_graph_ascend.limits import CHANGE_SECONDS, WAIT_SECONDS
from tb_graph_ascend.problems import ProblemError, conflict, try_again

Result = TypeVar("Result")


def write(
    file: DatabaseFile,
    expected: str,
    change: Callable[[sqlite3.Connection], Result],
    *,
    dry_run: bool,
) -> tuple[Result, str]:
    """What ``change`` returns, and the revision after it.

    The file must be at the revision ``expected``. A change that raises, and a dry run, leave
    nothing behind.
    """
    check_header(file)
    require_writable(file)
    try:
        with held_open(file.path), closing(connect(file.path, "mode=rw", WAIT_SECONDS)) as database:
            deadline = time.monotonic() + CHANGE_SECONDS
            database.set_progress_handler(lambda: time.monotonic() > deadline, 200_000)
            begin_writing(database)
            try:
                prepare_writing(database, file.name)
                before = _revision(file)
                if before != expected:
                    raise conflict(
                        "changed_meanwhile",
                        f"{file.name} was changed by somebody else since it was loaded.",
                        "Look at the change, then do yours again.",
                        before,
                    )
                result = change(database)
                if dry_run or not database.total_changes:
                    return result, before
                store(database)
            finally:
                roll_back(database)
            return result, _revision_after(file, before)
    except (sqlite3.Error, DamagedError, FileError, OSError) as error:
        raise _problem_of(file, error) from error
    except UNEXPECTED as error:
        blame(file, error)
        raise


def _problem_of(
    file: DatabaseFile, error: sqlite3.Error | DamagedError | FileError | OSError
) -> ProblemError:
    if isinstance(error, sqlite3.Error):
        if is_read_only(error):
            return read_only(file)
        if is_interrupted(error):
            return _took_too_long(file)
    return problem_of(file, error)


def _took_too_long(file: DatabaseFile) -> ProblemError:
    """A change that was given up, and so left nothing behind."""
    return try_again(
        "too_slow",
        f"The change of {file.name} took longer than {CHANGE_SECONDS:.0f} seconds; nothing was"
        " changed.",
        "Match in parts: what lies below a node further down.",
    )


def require_writable(file: DatabaseFile) -> None:
    """403 when the file, or the directory that its journal needs, may not be written."""
    if not is_writable(file):
        raise read_only(file)


def is_writable(file: DatabaseFile) -> bool:
    """Whether matches can be written to the file."""
    place = real_path(file.path)
    return os.access(place, os.W_OK) and os.access(place.parent, os.W_OK)


def read_only(file: DatabaseFile) -> ProblemError:
    """The user who runs TensorBoard may not write the file."""
    return ProblemError(
        HTTPStatus.FORBIDDEN,
        "read_only",
        f"{file.name} or its directory may not be written by the user who runs TensorBoard.",
        "Allow it with chmod u+w on both, or copy the file to a directory of your own.",
    )


def _revision(file: DatabaseFile) -> str:
    now = read_file(file.name, file.path)
    return "" if now is None else now.revision


def _revision_after(file: DatabaseFile, before: str) -> str:
    """The revision that this change made; the one before when another has followed already.

    Whoever then asks for a change based on it is told that there was one.
    """
    after = _revision(file)
    return after if changes_of(after) == changes_of(before) + 1 else before
