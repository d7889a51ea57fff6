"""Reading a .vis.db whose rows may hold anything."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from msprobe_builder.database.problems import SAVE_AND_REBUILD
from tb_graph_ascend.files.database import open_database
from tb_graph_ascend.files.discover import DatabaseFile
from tb_graph_ascend.problems import ProblemError, cannot_show

_log = logging.getLogger(__name__)


@contextmanager
def reading(file: DatabaseFile) -> Iterator[sqlite3.Connection]:
    """A connection that reads ``file``; whatever goes wrong with its content is a ProblemError."""
    try:
        with open_database(file) as connection:
            yield connection
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise unexpected_content(file, error) from error


def unexpected_content(file: DatabaseFile, error: Exception) -> ProblemError:
    """A value of a type or size that nothing of ours writes; SQLite keeps any in any column."""
    _log.exception("Unexpected content of %s", file.path)
    return cannot_show(
        "damaged",
        f"{file.name} holds something unexpected ({type(error).__name__}).",
        SAVE_AND_REBUILD,
    )
