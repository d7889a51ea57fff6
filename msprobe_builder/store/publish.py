"""Giving a finished database its name: all at once or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msprobe_builder.errors import BuildError


def reserve(directory: Path, name: str) -> Path:
    """The path of a file to be written; raises BuildError when it cannot be."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise BuildError(
            f"{directory} is not a directory; choose another output with -o."
        ) from error
    except OSError as error:
        raise BuildError(
            f"Cannot create {directory}: {error.strerror}; choose another -o."
        ) from error
    if not os.access(directory, os.W_OK | os.X_OK):
        raise BuildError(f"Cannot write into {directory}; choose another output with -o.")
    target = directory / name
    if target.exists() or target.is_symlink():
        raise _exists(target)
    return target


@contextmanager
def published(target: Path) -> Iterator[Path]:
    """A temporary path beside ``target``; it is synced and renamed when the block succeeds.

    On any exception the temporary file is removed and ``target`` does not appear.
    """
    temporary = target.with_name(f".{target.name}.{os.getpid()}.building")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        _rename(temporary, target)
        _sync_directory(target.parent)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def _rename(temporary: Path, target: Path) -> None:
    try:
        os.link(temporary, target)  # fails where a rename would overwrite
    except FileExistsError as error:
        raise _exists(target) from error
    except OSError:  # a file system without hard links
        if target.exists():
            raise _exists(target) from None
        temporary.rename(target)


def _sync_directory(directory: Path) -> None:
    with suppress(OSError):  # not every file system can
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _exists(target: Path) -> BuildError:
    return BuildError(f"{target} exists already; remove it or choose another output with -o.")
