"""Reading a database's first bytes while SQLite has it open in the same process.

Closing any descriptor of a file ends all locks that the process holds on it, SQLite's included
(https://sqlite.org/howtocorrupt.html, section 2.2). So a file that SQLite has open here is read
through a descriptor that stays open as long as SQLite's.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_Identity = tuple[int, int]  # device and inode


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
        identity = _identity(path.stat())
        file = _open.get(identity)
        if file is None:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            # The path may have got another file meanwhile; what counts is what is open.
            identity = _identity(os.fstat(descriptor))
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
    """The first bytes of a file and its status."""
    with _lock:
        file = _open.get(_identity(path.stat()))
        if file is not None:
            descriptor = file.descriptors[0]
            return os.pread(descriptor, size, 0), os.fstat(descriptor)
        with path.open("rb") as stream:
            return stream.read(size), os.fstat(stream.fileno())


def _identity(status: os.stat_result) -> _Identity:
    return status.st_dev, status.st_ino
