"""Reading a database's first bytes while SQLite has it open in the same process.

Closing any descriptor of a file ends all locks that the process holds on it, SQLite's included
(https://sqlite.org/howtocorrupt.html, section 2.2). So a file that SQLite has open here is read
through a descriptor that stays open as long as SQLite's.

Nothing but regular files is opened: opening a pipe waits for somebody at its other end.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_Identity = tuple[int, int]  # device and inode
# A pipe put in the place of the file between two calls is opened without waiting.
_FLAGS = os.O_RDONLY
for _name in ("O_CLOEXEC", "O_NONBLOCK", "O_BINARY"):  # of POSIX systems, and of Windows
    _FLAGS |= getattr(os, _name, 0)


@dataclass
class _OpenFile:
    descriptors: list[int] = field(default_factory=list)
    users: int = 0


_lock = threading.Lock()
_open: dict[_Identity, _OpenFile] = {}


@contextmanager
def held_open(path: Path) -> Iterator[None]:
    """Within it, SQLite may open ``path``; OSError when nobody may read it."""
    with _lock:
        identity = _identity(_regular(path, path.stat()))
        file = _open.get(identity)
        if file is None:
            descriptor, status = _open_regular(path)
            # The path may have got another file meanwhile; what counts is what is open.
            identity = _identity(status)
            file = _open.setdefault(identity, _OpenFile())
            file.descriptors.append(descriptor)
        file.users += 1
    try:
        yield
    finally:
        with _lock:
            file.users -= 1
            if not file.users:
                del _open[identity]
                for descriptor in file.descriptors:
                    os.close(descriptor)


def read_start(path: Path, size: int) -> tuple[bytes, os.stat_result]:
    """The first bytes of a file and its status; OSError when it is no regular file."""
    with _lock:
        file = _open.get(_identity(_regular(path, path.stat())))
        if file is not None:
            descriptor = file.descriptors[0]
            return _read_at(descriptor, size, 0), os.fstat(descriptor)
        descriptor, status = _open_regular(path)
        if _identity(status) in _open:
            # Another name of an open file: this descriptor stays until that file is closed.
            _open[_identity(status)].descriptors.append(descriptor)
            return _read_at(descriptor, size, 0), status
        try:
            return _read_at(descriptor, size, 0), status
        finally:
            os.close(descriptor)


def read_part(path: Path, offset: int, size: int) -> bytes:
    """Bytes of a file that SQLite has not open, such as a journal; OSError as above."""
    descriptor, _ = _open_regular(path)
    try:
        return _read_at(descriptor, size, offset)
    finally:
        os.close(descriptor)


def _open_regular(path: Path) -> tuple[int, os.stat_result]:
    _regular(path, path.stat())  # a device might do something when it is opened
    descriptor = os.open(path, _FLAGS)
    try:
        status = _regular(path, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, status


def _regular(path: Path, status: os.stat_result) -> os.stat_result:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "no regular file", str(path))
    return status


def _read_at(descriptor: int, size: int, offset: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(descriptor, size, offset)
    os.lseek(descriptor, offset, os.SEEK_SET)  # Windows; nobody else moves it, under the lock
    return os.read(descriptor, size)


def _identity(status: os.stat_result) -> _Identity:
    return status.st_dev, status.st_ino
