"""A database file at one moment: what is known of it before SQLite sees it."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from msprobe_builder.files.regular import has_locks, read_start

HEADER_SIZE = 100  # bytes of a SQLite file's header


@dataclass(frozen=True)
class DatabaseFile:
    """``revision`` differs after every change of its content."""

    name: str  # as it is shown to the user
    path: Path
    size: int
    modified: float  # seconds since the epoch
    revision: str
    header: bytes  # of SQLite; empty when the file cannot be read
    may_be_read: bool = True


def read_file(name: str, path: Path) -> DatabaseFile | None:
    """Size, time and revision; None when the file has gone, or is no regular one."""
    header = b""
    try:
        header, status = read_start(path, HEADER_SIZE)
    except PermissionError:
        try:
            status = path.stat()
        except OSError:  # in a directory that may be listed but not entered
            return DatabaseFile(name, path, 0, 0.0, "", b"", may_be_read=False)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    # SQLite counts changes in bytes 24 to 27; time and inode tell apart files put in its place.
    marks = (int.from_bytes(header[24:28], "big"), status.st_size, status.st_mtime_ns)
    revision = "-".join(format(mark, "x") for mark in (*marks, status.st_ino))
    can_read = bool(header) or not status.st_size
    return DatabaseFile(
        name, path, status.st_size, status.st_mtime, revision, header, may_be_read=can_read
    )


def changes_of(revision: str) -> int:
    """How many changes of a file SQLite had counted at a revision."""
    return int(revision.partition("-")[0] or "0", 16)


def real_path(path: Path) -> Path:
    """Where the file itself lies: SQLite keeps journals there, not beside a link."""
    return Path(os.path.realpath(path))


def is_writable(file: DatabaseFile) -> bool:
    """Whether the file, and the directory that its journal needs, may be written and locked."""
    place = real_path(file.path)
    if not (os.access(place, os.W_OK) and os.access(place.parent, os.W_OK)):
        return False
    with suppress(OSError):
        return has_locks(file.path)
    return False
