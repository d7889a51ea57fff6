"""What lies beside a database: logs and journals of changes that are not in the file itself.

A journal holds the old content of pages and nothing that says of which file they are. SQLite
goes by its name alone, and would write the pages of an earlier file into a new one of that name.
https://sqlite.org/fileformat2.html, sections 1.3 and 3
"""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from datetime import datetime
from pathlib import Path

from msprobe_builder.database.connection import connect
from msprobe_builder.database.file import HEADER_SIZE, DatabaseFile, real_path
from msprobe_builder.database.problems import DamagedError
from msprobe_builder.database.read.meta import read_meta
from msprobe_builder.files.problems import FileError
from msprobe_builder.files.regular import read_part, read_start

_HEADER = 28  # bytes that are used of its first sector
_MAGIC = bytes.fromhex("d9d505f920a163d7")  # also ends a journal that names another file
_UNKNOWN_COUNT = 0xFFFFFFFF
_MOST_RECORDS = 100_000  # looked through for the first page
_SECOND = 1.0  # created_at has no fractions


def beside(path: Path, suffix: str) -> tuple[Path, os.stat_result | None]:
    """``-journal`` or ``-wal`` of a database, with its own status, None when it is not there."""
    place = real_path(path)
    found = place.with_name(place.name + suffix)
    try:
        return found, found.lstat()
    except OSError:
        return found, None


def require_no_log(file: DatabaseFile) -> None:
    """FileError when another program left changes in a write-ahead log."""
    _, status = beside(file.path, "-wal")
    if status is not None and (not is_regular(status) or status.st_size):
        raise FileError(
            "unfinished",
            f"{file.name} has changes that are not in the file itself yet.",
            "Close the program that writes to it, or run: PRAGMA journal_mode = DELETE",
        )


def is_regular(status: os.stat_result) -> bool:
    """Whether it can be read at all: opening a pipe would wait for ever."""
    return stat.S_ISREG(status.st_mode)


def may_be_hot(journal: Path, size: int) -> bool:
    """Whether SQLite would look into it: it is overwritten with zeros when a change is done."""
    return size > 0 and read_part(journal, 0, 1) != b"\0"


def names_another(journal: Path, size: int) -> bool:
    """Whether it belongs to a change of several files, which SQLite would open and may delete."""
    return size >= len(_MAGIC) and read_part(journal, size - len(_MAGIC), len(_MAGIC)) == _MAGIC


def belongs(path: Path, journal: Path, status: os.stat_result) -> bool:
    """Whether the journal is of this file, as far as both can tell."""
    created = _created_at(path)
    if created is not None and status.st_mtime < created - _SECOND:
        return False  # left behind before the file was made
    first, _ = read_start(path, HEADER_SIZE)
    header = read_part(journal, 0, _HEADER)
    if len(first) < HEADER_SIZE or len(header) < _HEADER or not header.startswith(_MAGIC):
        return True  # nothing that SQLite would write back
    records, _, pages, sector, page = (
        int.from_bytes(header[at : at + 4], "big") for at in range(8, _HEADER, 4)
    )
    page_size = int.from_bytes(first[16:18], "big")
    if page != (65536 if page_size == 1 else page_size):
        return False
    before = _first_page(journal, status.st_size, records, sector, page)
    if before is None:  # not changed yet
        return pages == int.from_bytes(first[28:32], "big")
    same = [slice(0, 24), slice(56, 60), slice(68, 72)]  # versions, encoding, application
    if any(first[part] != before[part] for part in same):
        return False
    changes = [int.from_bytes(one[24:28], "big") for one in (before, first)]
    return pages == int.from_bytes(before[28:32], "big") and 0 <= changes[1] - changes[0] <= 1


def _first_page(journal: Path, size: int, records: int, sector: int, page: int) -> bytes | None:
    """The start of page 1 as it was before the change; None when the journal has it not."""
    if records in (0, _UNKNOWN_COUNT):
        records = (size - sector) // (page + 8)
    for number in range(min(records, _MOST_RECORDS)):
        record = read_part(journal, sector + number * (page + 8), 104)
        if record[:4] == b"\0\0\0\1":
            return record[4:] if len(record) == 104 else None
    return None


def _created_at(path: Path) -> float | None:
    """When the file was built, in seconds since the epoch; read past the journal."""
    try:
        # The caller holds the file open; immutable: neither locks nor journals.
        with closing(connect(real_path(path), "mode=ro&immutable=1")) as database:
            created_at = read_meta(database).get("created_at", "")
    except (sqlite3.Error, DamagedError):
        return None
    try:
        return datetime.fromisoformat(created_at).timestamp()
    except ValueError:
        return None
