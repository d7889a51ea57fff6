"""What a person asks of a file in SQL: nothing but reading, and within bounds, whatever is asked.

Neither the file nor the question is trusted: SQLite itself refuses what does not read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.base.limits import LARGEST_ANSWER_VALUE, MIB, QUERY_MEMORY
from msprobe_builder.base.printable import printable
from msprobe_builder.database.connection import allow_seconds
from msprobe_builder.database.layout import current_layout
from msprobe_builder.database.open import opened
from msprobe_builder.database.problems import DamagedError, error_code
from msprobe_builder.database.whole import note_tables, whole

if TYPE_CHECKING:
    from sqlite_utils import Database

Cells = tuple[str | int | float | bytes | None, ...]

# Of https://sqlite.org/c3ref/c_alter_table.html; Python has names for some of them only.
_PRAGMA, _READ, _SELECT, _FUNCTION, _RECURSIVE = 19, 20, 21, 31, 33
_READING = {_READ, _SELECT, _RECURSIVE}
_PRAGMAS = {"table_info", "table_xinfo", "table_list", "index_list", "index_info", "user_version"}
_INTERRUPTED, _TOO_BIG = 9, 18
_OF_THE_QUESTION = {1, _TOO_BIG, 20, 23, 25}  # error, too big, mismatch, not authorised, range


@dataclass(frozen=True)
class Answer:
    """The rows are read one by one, as they are asked for."""

    columns: tuple[str, ...]
    rows: Iterator[Cells]


@dataclass(frozen=True)
class Described:
    """A table or view with its columns, each with its type where it has one."""

    name: str
    rows: int | None  # None of a view
    columns: tuple[str, ...]


@contextmanager
def asked(path: Path, sql: str, seconds: float) -> Iterator[Answer]:
    """The answer to ``sql`` by the file at ``path``, which looks like one of today's form.

    Raises UsageError for what is no question that SQLite can answer, or that does not read;
    BuildError for one that takes longer than ``seconds`` or more memory than there is for it;
    FileError for the file.
    """
    with _only_reading(path, seconds) as (database, tables), _in_words(seconds):
        from sqlite_utils.utils import dedupe_keys

        with whole(database.conn, tables):
            cursor = database.execute(sql)
        if cursor.description is None:
            raise UsageError("This SQL asks for nothing; begin it with SELECT.")
        columns = tuple(dedupe_keys(str(column[0]) for column in cursor.description))
        with closing(_rows(cursor, seconds)) as rows:
            yield Answer(columns, rows)


def described(path: Path, seconds: float) -> list[Described]:
    """What can be asked for: views first, which are a promise, then tables; FileError."""
    layout = current_layout()
    with (
        _only_reading(path, seconds) as (database, tables),
        _in_words(seconds),
        whole(database.conn, tables),
    ):
        return [
            Described(
                name,
                None if name in layout.views else database[name].count,
                tuple(f"{one.name} {one.type}".rstrip() for one in database[name].columns),
            )
            for name in (*layout.views, *layout.tables)
        ]


@contextmanager
def _only_reading(path: Path, seconds: float) -> Iterator[tuple[Database, set[str]]]:
    """The file as sqlite-utils sees it, without plugins of the user's; the tables that are read."""
    try:
        from sqlite_utils import Database
    except ImportError as error:
        raise BuildError(
            "Asking a file needs sqlite-utils: pip install 'msprobe-graph[query]'."
        ) from error
    with opened(path) as connection:
        allow_seconds(connection, seconds)
        virtual = connection.execute(
            "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND rootpage = 0"
        ).fetchone()
        if virtual is not None:  # reading it runs code of the file's choice
            raise DamagedError(f"it has a virtual table, {virtual[0]}")
        # Of the whole process, and for good. Sorting counts: there are no temporary files.
        connection.execute(f"PRAGMA hard_heap_limit = {QUERY_MEMORY}")
        if hasattr(connection, "setlimit"):  # from Python 3.11 on
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_ANSWER_VALUE)
        tables = note_tables(connection, _is_allowed)
        yield Database(connection, recursive_triggers=False, execute_plugins=False), tables


def _is_allowed(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    """Whether SQLite may do that: SQLITE_OK, else SQLITE_DENY."""
    if action == _FUNCTION:
        is_fine = second != "load_extension"
    elif action == _PRAGMA:
        is_fine = first in _PRAGMAS and (first != "user_version" or second is None)
    else:
        is_fine = action in _READING
    return sqlite3.SQLITE_OK if is_fine else sqlite3.SQLITE_DENY


def _rows(cursor: sqlite3.Cursor, seconds: float) -> Generator[Cells, None, None]:
    with _in_words(seconds):
        yield from map(tuple, cursor)  # a cursor itself would be closed here, after its file


@contextmanager
def _in_words(seconds: float) -> Iterator[None]:
    """What is wrong with the question, in a sentence; what is wrong with the file goes on."""
    try:
        yield
    except MemoryError as error:
        raise BuildError(
            f"The answer takes more than {QUERY_MEMORY // MIB} MiB of memory; ask for less of it."
        ) from error
    except UnicodeEncodeError as error:
        raise UsageError("The SQL is no text; write it in UTF-8.") from error
    except (sqlite3.ProgrammingError, sqlite3.Warning) as error:
        raise UsageError(f"The SQL cannot be run: {str(error).rstrip('.')}.") from error
    except sqlite3.Error as error:
        code = error_code(error)
        if code == _INTERRUPTED:
            raise BuildError(
                f"There was no whole answer within {seconds:g} s; ask for less, or give --seconds."
            ) from error
        if code is None or code in _OF_THE_QUESTION:
            raise UsageError(
                f"The SQL cannot be run: {printable(str(error))}. It may only read;"
                " msprobe-build schema FILE says what there is."
            ) from error
        raise
