"""Reading whole files that anybody may have put there: only regular ones, and of bounded size."""

from __future__ import annotations

import os
import stat
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from msprobe_builder.base.limits import LARGEST_TEXT_FILE, MIB

# How what common programs pack begins.
_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"PK\3\4")
# Opening a pipe would wait for somebody at its other end.
_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)


class Version(NamedTuple):
    """A file's content at one moment, as far as its status tells."""

    device: int
    inode: int
    size: int
    modified: int  # nanoseconds


class UnreadableFileError(OSError):
    """A file of another kind or size than can be read; ``strerror`` says which."""


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


def _require_regular(path: Path, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise UnreadableFileError(0, "it is a directory", str(path))
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableFileError(0, "it is no regular file", str(path))
