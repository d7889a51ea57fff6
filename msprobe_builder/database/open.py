"""The one place where database files from outside are opened, by the builder and the viewer alike.

A file is checked before SQLite sees it, and nothing in it is trusted. Whatever goes wrong with it,
also later while it is read, is a FileError in the words of :mod:`problems`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from msprobe_builder.base.codes import APPLICATION_ID
from msprobe_builder.base.errors import UsageError
from msprobe_builder.database.connection import BUSY_SECONDS, begin_writing, connect, roll_back
from msprobe_builder.database.file import HEADER_SIZE, DatabaseFile, is_writable, read_file
from msprobe_builder.database.findings import findings
from msprobe_builder.database.journal import require_no_log
from msprobe_builder.database.layout import current_layout
from msprobe_builder.database.migrations import SCHEMA_VERSION, migrate, read_as_current
from msprobe_builder.database.problems import (
    REBUILD,
    DamagedError,
    damaged,
    file_error,
    in_words,
    read_only,
)
from msprobe_builder.database.recover import recovered
from msprobe_builder.facts.wording import ENGLISH, tell
from msprobe_builder.files.problems import FileError
from msprobe_builder.files.regular import has_locks, held_open

# What values of a type or size raise that nothing of ours writes.
UNEXPECTED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_FOREIGN_TABLES = frozenset({"tb_nodes", "tb_config"})  # of the tool this one replaces


@contextmanager
def opened(path: Path, *, as_it_is: bool = False) -> Iterator[sqlite3.Connection]:
    """A connection that reads a whole .vis.db and cannot write to it.

    A file of an older version looks like one of today, unless ``as_it_is``. UsageError when
    there is no file; FileError when it cannot be read, also when that shows only while it is read:
    what nobody foresaw is the file's fault if something is wrong with it.
    """
    file = found(path)
    try:
        with reading(file, as_it_is=as_it_is) as connection:
            yield connection
    except UNEXPECTED as error:
        with reading(file, as_it_is=True) as connection:
            wrong = next(findings(connection), None)
        if wrong is None:
            raise
        raise damaged(file.name, tell(wrong, ENGLISH).rstrip(".")) from error


@contextmanager
def reading(
    file: DatabaseFile,
    busy_seconds: float = BUSY_SECONDS,
    query_seconds: float | None = None,
    *,
    as_it_is: bool = False,
) -> Iterator[sqlite3.Connection]:
    """The same of a file at one revision; FileError when it has another one by now."""
    with connected(file, busy_seconds, query_seconds) as connection:
        if as_it_is:
            connection.execute("BEGIN")
            check_identity(connection, file.name)
        else:
            prepare_reading(connection, file.name)
        now = read_file(file.name, file.path)
        if now is None or now.revision != file.revision:
            raise FileError(
                "changed",
                f"{file.name} was replaced while it was read.",
                "Load it again.",
                may_pass=True,
            )
        yield connection


@contextmanager
def writing(
    file: DatabaseFile, busy_seconds: float = BUSY_SECONDS, change_seconds: float | None = None
) -> Iterator[sqlite3.Connection]:
    """A transaction on a .vis.db, brought up to date: what is not stored is taken back.

    FileError when the file cannot be read or written, or the change takes too long.
    """
    check_header(file)
    require_locks(file)
    if not is_writable(file):
        raise read_only(file.name)
    with (
        in_words(file.name),
        _held(file),
        closing(connect(file.path, "mode=rw", busy_seconds, change_seconds)) as connection,
    ):
        begin_writing(connection)
        try:
            prepare_writing(connection, file.name)
            yield connection
        finally:
            roll_back(connection)


@contextmanager
def connected(
    file: DatabaseFile, busy_seconds: float = BUSY_SECONDS, query_seconds: float | None = None
) -> Iterator[sqlite3.Connection]:
    """A connection to a SQLite file of anybody, to read it; FileError."""
    check_header(file)
    with unchecked(file, busy_seconds, query_seconds) as connection:
        yield connection


@contextmanager
def unchecked(
    file: DatabaseFile, busy_seconds: float = BUSY_SECONDS, query_seconds: float | None = None
) -> Iterator[sqlite3.Connection]:
    """The same of a file whose damage is known, to save what can still be read."""
    with (
        in_words(file.name),
        _held(file),
        closing(connect(file.path, read_mode(file), busy_seconds, query_seconds)) as connection,
    ):
        yield connection


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Within it nobody else writes to a file, and everybody may read it; FileError."""
    file = found(path)
    if not has_locks(file.path):  # nobody writes there
        yield
        return
    with (
        _held(file),
        closing(connect(file.path, "mode=rw")) as connection,
    ):
        with in_words(file.name):
            connection.execute("BEGIN IMMEDIATE")
        yield
        roll_back(connection)


def found(path: Path, suffix: str = ".vis.db", *, may_write: bool = False) -> DatabaseFile:
    """The file at a path that a user gave, with all changes complete or taken back.

    UsageError, saying what is there instead, where there is no file; FileError when something
    that lies beside it stands in the way.
    """
    require_file(path, suffix)
    file = read_file(str(path), path)
    if file is None:
        raise UsageError(f"{path} does not exist; give a {suffix} file.")
    return recovered(file, may_write=may_write)


def require_file(path: Path, suffix: str = ".vis.db") -> None:
    """UsageError, saying what is there instead, where there is no file."""
    if not path.is_file():
        kind = "is a directory" if path.is_dir() else "is no regular file"
        raise UsageError(
            f"{path} {kind if path.exists() else 'does not exist'}; give a {suffix} file."
        )


def check_header(file: DatabaseFile) -> None:
    """Refuse what can be refused by the first hundred bytes alone; FileError."""
    name, header, size = file.name, file.header, file.size
    if not header and (size or not file.may_be_read):
        raise FileError(
            "no_permission",
            f"{name} may not be read by the user who runs this program.",
            f"Allow it: chmod a+r {name}",
        )
    if size == 0:
        raise FileError("empty_file", f"{name} is empty.", REBUILD)
    if len(header) < HEADER_SIZE or not header.startswith(b"SQLite format 3\0"):
        raise FileError("not_a_database", f"{name} is not a SQLite database.", REBUILD)
    page_size = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big")
    pages_known = header[24:28] == header[92:96]
    if pages_known and size < pages * (65536 if page_size == 1 else page_size):
        message = f"{name} is cut off: its end is missing."
        raise FileError("truncated", message, "Copy it again, or build it again.")
    if int.from_bytes(header[68:72], "big") == APPLICATION_ID:
        version = int.from_bytes(header[60:64], "big")
        if version > SCHEMA_VERSION:
            raise FileError(
                "newer_schema",
                f"{name} has schema version {version}, this program reads up to {SCHEMA_VERSION}.",
                "Update msprobe-graph where this program runs.",
            )
        if version < 1:
            raise FileError("damaged", f"{name} carries no schema version.", REBUILD)


def read_mode(file: DatabaseFile) -> str:
    """How SQLite may open a file to read it, as parameters of its URI; FileError."""
    if 2 not in file.header[18:20]:
        # Where nothing can be locked nobody changes a file either; see require_locks().
        return "mode=ro" if has_locks(file.path) else "mode=ro&immutable=1"
    # Write-ahead mode, set by some other program: reading it would create files beside it.
    require_no_log(file)
    return "mode=ro&immutable=1"


def require_locks(file: DatabaseFile) -> None:
    """FileError where two changes at once could not be kept apart."""
    if not has_locks(file.path):
        raise FileError(
            "no_locks",
            f"{file.name} lies on a file system without locks: changes of two people at once would"
            " spoil it.",
            "Copy it to a local disk to change matches; here it can be looked at.",
        )


def check_identity(connection: sqlite3.Connection, name: str) -> int:
    """The schema version of an open file of ours; FileError for any other."""
    # Virtual tables have no root page: they would run code of the file's choice.
    query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0"
    tables = {table for (table,) in connection.execute(query)}
    [[identity]] = connection.execute("PRAGMA application_id")
    if identity != APPLICATION_ID:
        if tables >= _FOREIGN_TABLES:
            raise FileError(
                "reference_format",
                f"{name} was written by another builder, in its own layout of tables.",
                "Turn it into one of ours with msprobe-build import FILE, or build it again.",
            )
        raise FileError(
            "foreign_database",
            f"{name} is a SQLite database, but not one of msprobe-build.",
            "Remove it from the log directory or give it another suffix.",
        )
    [[version]] = connection.execute("PRAGMA user_version")
    missing = current_layout().tables.keys() - tables
    if version == SCHEMA_VERSION and missing:
        raise DamagedError(f"table {min(missing)} is missing")
    return int(version)


def prepare_reading(connection: sqlite3.Connection, name: str) -> None:
    """Let a connection see a file as it is now, also one of an older version; it cannot write."""
    connection.execute("BEGIN")
    version = check_identity(connection, name)
    if version < SCHEMA_VERSION:
        read_as_current(connection, name, version)
    connection.execute("PRAGMA query_only = ON")


def prepare_writing(connection: sqlite3.Connection, name: str) -> None:
    """Bring a file of an older version up to date in the caller's transaction."""
    check_identity(connection, name)
    migrate(connection)
    # A file of ours has none; in others they would run with every change.
    row = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchone()
    if row is not None:
        raise DamagedError(f"it has a trigger, {row[0]}")


@contextmanager
def _held(file: DatabaseFile) -> Iterator[None]:
    """The file held open; an OSError of what is done meanwhile is not one of the file."""
    with ExitStack() as stack:
        try:
            stack.enter_context(held_open(file.path))
        except OSError as error:
            raise file_error(file.name, error) from error
        yield
