"""Opening a .vis.db: checked before SQLite sees it, trusting nothing in it, never written to."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from msprobe_builder.base.codes import APPLICATION_ID
from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.base.limits import LARGEST_VALUE
from msprobe_builder.database.layout import current_layout
from msprobe_builder.database.migrations import SCHEMA_VERSION, migrate, read_as_current
from msprobe_builder.database.problems import REBUILD, DamagedError, FileError, file_error

HEADER_SIZE = 100  # bytes of a SQLite file's header
BUSY_SECONDS = 10.0

_FOREIGN_TABLES = frozenset({"tb_nodes", "tb_config"})  # of the tool this one replaces
_STEPS_PER_LOOK = 200_000  # of SQLite's machine, between two looks at the clock


@contextmanager
def opened(path: Path, *, as_it_is: bool = False) -> Iterator[sqlite3.Connection]:
    """A connection that reads a whole file of ours and cannot write to it.

    A file of an older version looks like one of today, unless ``as_it_is``. UsageError when
    there is no file; BuildError, one sentence, when it cannot be read, also when that shows
    only while it is read.
    """
    name = str(path)
    require_file(path)
    try:
        header, size = _read_header(path)
        check_header(name, header, size)
        mode = read_mode(name, path, header)
        with closing(connect(path, mode, BUSY_SECONDS)) as connection:
            if as_it_is:
                connection.execute("BEGIN")
                check_identity(connection, name)
            else:
                prepare_reading(connection, name)
            yield connection
    except FileError as error:
        raise BuildError(str(error)) from error
    # A message of SQLite that quotes the file may be no text.
    except (sqlite3.Error, DamagedError, UnicodeDecodeError) as error:
        raise BuildError(str(file_error(name, error))) from error


def require_file(path: Path) -> None:
    """UsageError, saying what is there instead, where there is no file."""
    if not path.is_file():
        kind = "is a directory" if path.is_dir() else "is no regular file"
        raise UsageError(
            f"{path} {kind if path.exists() else 'does not exist'}; give a .vis.db file."
        )


def check_header(name: str, header: bytes, size: int) -> None:
    """Refuse what can be refused by the first hundred bytes alone; FileError."""
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


def read_mode(name: str, path: Path, header: bytes) -> str:
    """How SQLite may open a file to read it, as parameters of its URI; FileError."""
    if 2 not in (header[18], header[19]):
        return "mode=ro"
    # Write-ahead mode, set by some other program: reading it would create files beside it.
    log = path.with_name(path.name + "-wal")
    if log.exists() and log.stat().st_size:
        raise FileError(
            "unfinished",
            f"{name} has changes that are not in the file itself yet.",
            "Close the program that writes to it, or run: PRAGMA journal_mode = DELETE",
        )
    return "mode=ro&immutable=1"


def connect(
    path: Path, mode: str, busy_seconds: float, query_seconds: float | None = None
) -> sqlite3.Connection:
    """A connection that trusts nothing in the file, and gives up after ``query_seconds``."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{mode}",
        uri=True,
        timeout=busy_seconds,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.text_factory = _decode
        if hasattr(connection, "setlimit"):  # from Python 3.11 on
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)
        if query_seconds is not None:
            allow_seconds(connection, query_seconds)
        for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "temp_store = MEMORY"):
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
    return connection


def allow_seconds(connection: sqlite3.Connection, seconds: float) -> None:
    """Give up what the connection is asked for when it takes longer than that from now on."""
    deadline = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_PER_LOOK)


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


def begin_writing(connection: sqlite3.Connection) -> None:
    """Begin a transaction of which nothing is seen, or lost, before it is complete."""
    # A rollback journal, deleted last: the file alone is always complete. Also across a loss of
    # power, so the directory is synced after the journal has gone.
    for pragma in ("journal_mode = DELETE", "synchronous = EXTRA", "foreign_keys = OFF"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("BEGIN IMMEDIATE")


def store(connection: sqlite3.Connection) -> None:
    """Make a transaction last."""
    connection.execute("COMMIT")


def roll_back(connection: sqlite3.Connection) -> None:
    """Take back what was not stored, if anything."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def read_something(connection: sqlite3.Connection) -> None:
    """Make SQLite look into the file: it then finishes what a killed program left undone."""
    connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()


def _read_header(path: Path) -> tuple[bytes, int]:
    try:
        with path.open("rb") as stream:
            return stream.read(HEADER_SIZE), path.stat().st_size
    except PermissionError as error:
        remedy = f"Allow it: chmod a+r {path}"
        raise FileError("no_permission", f"{path} may not be read by you.", remedy) from error


def _decode(value: bytes) -> str:
    return value.decode("utf-8", "replace")
