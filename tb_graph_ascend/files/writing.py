"""One transaction on a .vis.db: nothing of it is seen, or lost, before it is complete."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TypeVar

from msprobe_builder.database.connection import store
from msprobe_builder.database.file import DatabaseFile, changes_of, read_file
from msprobe_builder.database.open import UNEXPECTED, writing
from msprobe_builder.files.problems import FileError
from tb_graph_ascend.files.database import blame, in_words
from tb_graph_ascend.limits import CHANGE_SECONDS, WAIT_SECONDS
from tb_graph_ascend.problems import ProblemError, conflict, problem_of, try_again

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
    try:
        with writing(file, WAIT_SECONDS, CHANGE_SECONDS) as database:
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
            return result, _revision_after(file, before)
    except (FileError, OSError) as error:
        found = in_words(file, error)
        raise (_took_too_long(file) if found.code == "too_slow" else problem_of(found)) from error
    except UNEXPECTED as error:
        blame(file, error)
        raise


def _took_too_long(file: DatabaseFile) -> ProblemError:
    """A change that was given up, and so left nothing behind."""
    return try_again(
        "too_slow",
        f"The change of {file.name} took longer than {CHANGE_SECONDS:.0f} seconds; nothing was"
        " changed.",
        "Match in parts: what lies below a node further down.",
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
