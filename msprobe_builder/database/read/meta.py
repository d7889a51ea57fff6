"""What a file says of itself: how it was built, and by which bands it is graded."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from msprobe_builder.base.bands import Band
from msprobe_builder.base.codes import SIDES, Grade
from msprobe_builder.base.side_names import names_of_folders, side_name
from msprobe_builder.database.problems import DamagedError
from msprobe_builder.database.read.cells import integer, number, text
from msprobe_builder.dump.task import Task

_LONGEST_PATH = 4096  # characters


def read_meta(connection: sqlite3.Connection) -> dict[str, str]:
    """Table ``meta``; NULL is the empty text."""
    rows = connection.execute("SELECT key, value FROM meta")
    return {text(key): text(value) for key, value in rows}


def read_side_names(connection: sqlite3.Connection) -> tuple[str, str]:
    """What the sides are called, of any file fit to be shown; empty: debug and reference."""
    return side_names(read_meta(connection))


def side_names(meta: Mapping[str, str]) -> tuple[str, str]:
    """The same of what table ``meta`` says; an older file is named by its folders."""
    first, second = (side_name(meta.get(f"{side}_name", "")) for side in SIDES)
    if first or second:
        return first, second
    paths = (meta.get(f"{side}_path", "")[-_LONGEST_PATH:] for side in SIDES)
    return names_of_folders(*paths)


def read_task(connection: sqlite3.Connection) -> Task:
    """What was dumped; DamagedError when the file says nothing that exists."""
    task = read_meta(connection).get("task")
    found = next((known for known in Task if known.value == task), None)
    if found is None:
        raise DamagedError("it does not say what was dumped")
    return found


def read_bands(connection: sqlite3.Connection) -> tuple[Band, ...]:
    """The grades and the errors that they cover, best first."""
    rows = connection.execute("SELECT grade, low, high, colour FROM grade ORDER BY grade")
    return tuple(
        Band(Grade(integer(grade, 0, len(Grade) - 1)), number(low), number(high), text(colour))
        for grade, low, high, colour in rows
    )
