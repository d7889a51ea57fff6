"""Opening and reading files that anybody may have put there: only regular ones.

Opening a pipe waits for somebody at its other end, and a device might do something.

Closing any descriptor of a file ends all locks that the process holds on it, SQLite's included
(https://sqlite.org/howtocorrupt.html, section 2.2). So a file that SQLite has open in this process
is read through a descriptor that stays open as long as SQLite's: :func:`held_open`.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TextIO

from msprobe_builder.base.limits import LARGEST_TEXT_FILE, MIB

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# How what common programs pack begins.
_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"PK\3\4")
# A pipe put in the place of the file between two calls is opened without waiting.
_FLAGS = os.O_RDONLY
for _name in ("O_CLOEXEC", "O_NONBLOCK", "O_BINARY"):  # of POSIX systems, and of Windows
    _FLAGS |= getattr(os, _name, 0)

_Identity = tuple[int, int]  # device and inode


class Version(NamedTuple):
    """A file's content at one moment, as far as its status tells."""

    device: int
    inode: int
    size: int
    modified: int  # nanoseconds


class UnreadableFileError(OSError):
    """A file of another kind or size than can be read; ``strerror`` says which."""


@dataclass
class _HeldFile:
    descriptors: list[int] = field(default_factory=list)
    users: int = 0


_lock = threading.Lock()
_held: dict[_Identity, _HeldFile] = {}
_lockable: dict[int, bool] = {}  # by device
_FAR = 1 << 62


def version_of(status: os.stat_result) -> Version:
    """What tells apart the content of files that take each other's place."""
    return Version(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def open_regular(path: Path) -> int:
    """A descriptor of a regular file; OSError for anything else, at once."""
    _require_regular(path, path.stat())
    descriptor = os.open(path, _FLAGS)
    try:
        _require_regular(path, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def is_packed(path: Path) -> bool:
    """Whether a file that cannot be read as text is one, but compressed."""
    with closing(os.fdopen(open_regular(path), "rb")) as file:
        return file.read(8).startswith(_PACKED)


def read_bytes(path: Path, largest: int) -> bytes:
    """The whole content of a regular file."""
    with closing(os.fdopen(open_regular(path), "rb")) as file:
        size = os.fstat(file.fileno()).st_size
        if size > largest:
            raise UnreadableFileError(0, f"it is larger than {largest // MIB:,} MiB", str(path))
        return file.read(size)  # takes as much memory, whatever there is to read


def read_text(path: Path) -> str:
    """A file that a person wrote; UTF-8, with or without a byte-order mark."""
    return read_bytes(path, LARGEST_TEXT_FILE).decode("utf-8-sig").replace("\r\n", "\n")


@contextmanager
def opened_table(path: Path, largest: int) -> Iterator[TextIO]:
    """A text file of rows, as the module csv wants it; what is no UTF-8 is replaced. OSError."""
    descriptor = open_regular(path)
    with os.fdopen(descriptor, encoding="utf-8-sig", newline="", errors="replace") as file:
        if os.fstat(descriptor).st_size > largest:
            raise UnreadableFileError(0, f"it is larger than {largest // MIB:,} MiB", str(path))
        yield file


@contextmanager
def held_open(path: Path) -> Iterator[None]:
    """Within it, SQLite may open ``path``; OSError when nobody may read it."""
    with _lock:
        identity = _identity(_require_regular(path, path.stat()))
        file = _held.get(identity)
        if file is None:
            descriptor = open_regular(path)
            # The path may have got another file meanwhile; what counts is what is open.
            identity = _identity(os.fstat(descriptor))
            file = _held.setdefault(identity, _HeldFile())
            file.descriptors.append(descriptor)
        file.users += 1
    try:
        yield
    finally:
        with _lock:
            file.users -= 1
            if not file.users:
                del _held[identity]
                for descriptor in file.descriptors:
                    os.close(descriptor)


def has_locks(path: Path) -> bool:
    """Whether files may be locked where ``path`` lies; OSError when it cannot be read.

    Asked once for each file system, by a lock far behind any that SQLite takes.
    """
    if fcntl is None:
        return True
    device = path.stat().st_dev
    if device not in _lockable:
        with held_open(path):
            with _lock:
                descriptor = _held[_identity(path.stat())].descriptors[0]
            try:
                for kind in (fcntl.LOCK_SH | fcntl.LOCK_NB, fcntl.LOCK_UN):
                    fcntl.lockf(descriptor, kind, 1, _FAR)
                _lockable[device] = True
            except OSError:
                _lockable[device] = False
    return _lockable[device]


def read_start(path: Path, size: int) -> tuple[bytes, os.stat_result]:
    """The first bytes of a file, also of one that is held open, and its status; OSError."""
    with _lock:
        file = _held.get(_identity(_require_regular(path, path.stat())))
        if file is not None:
            descriptor = file.descriptors[0]
            return _read_at(descriptor, size, 0), os.fstat(descriptor)
        descriptor = open_regular(path)
        status = os.fstat(descriptor)
        if _identity(status) in _held:
            # Another name of a held file: this descriptor stays until that file is closed.
            _held[_identity(status)].descriptors.append(descriptor)
            return _read_at(descriptor, size, 0), status
        try:
            return _read_at(descriptor, size, 0), status
        finally:
            os.close(descriptor)


def read_part(path: Path, offset: int, size: int) -> bytes:
    """Bytes of a file that nobody holds open, such as a journal; OSError as above."""
    descriptor = open_regular(path)
    try:
        return _read_at(descriptor, size, offset)
    finally:
        os.close(descriptor)


def _read_at(descriptor: int, size: int, offset: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(descriptor, size, offset)
    os.lseek(descriptor, offset, os.SEEK_SET)  # Windows; nobody else moves it, under the lock
    return os.read(descriptor, size)


def _identity(status: os.stat_result) -> _Identity:
    return status.st_dev, status.st_ino


def _require_regular(path: Path, status: os.stat_result) -> os.stat_result:
    if stat.S_ISDIR(status.st_mode):
        raise UnreadableFileError(0, "it is a directory", str(path))
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableFileError(0, "it is no regular file", str(path))
    return status
