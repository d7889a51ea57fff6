"""Giving a finished file its name: all at once or not at all."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import BinaryIO

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.base.texts import is_text

SUFFIX = ".vis.db"
_INITIAL_SPACE = "4026531836"  # of process numbers, that of Linux itself
_LONGEST_NAME = 200  # bytes; the temporary name beside it is longer, and may have 255
# Of a build that was killed, on this machine.
_TEMPORARY = re.compile(r"\..+\.(?P<host>[0-9a-z-]+)\.(?P<process>[0-9]+)\.building(?:-journal)?\Z")


def file_name(name: str, *, suffix: str = SUFFIX) -> str:
    """The name of a result as the user chose it, with its suffix; UsageError when it is none."""
    is_plain = name not in ("", ".", "..") and not re.search(r"[/\\\0]", name) and is_text(name)
    if not is_plain:
        raise UsageError(
            f"The output name {name!r} must be a plain file name; give the directory apart from it."
        )
    whole = name if name.endswith(suffix) else f"{name}{suffix}"
    _require_short(whole)
    return whole


def _require_short(name: str) -> None:
    if len(os.fsencode(name)) > _LONGEST_NAME:
        raise UsageError(
            f"The output name {name[:40]}… is longer than {_LONGEST_NAME} bytes; shorten it."
        )


def free_name(directory: Path, name: str) -> str:
    """``name``, with a number when the directory holds a file of that name."""
    stem = name.removesuffix(SUFFIX)
    names = (name if not number else f"{stem}_{number}{SUFFIX}" for number in count())
    return next(one for one in names if not os.path.lexists(directory / one))


def remove_left_overs(directory: Path) -> None:
    """Remove what processes of this machine left in ``directory`` that were killed."""
    with suppress(OSError):
        for entry in directory.iterdir():
            found = _TEMPORARY.match(entry.name)
            if found and found["host"] == _host() and not _is_running(int(found["process"])):
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry, ignore_errors=True)
                    continue
                with suppress(OSError):
                    entry.unlink()


@contextmanager
def temporary_folder(directory: Path, name: str) -> Iterator[Path]:
    """A hidden folder in ``directory`` that goes in the end; OSError when it cannot be made.

    Should the process be killed, the next command that writes there removes it.
    """
    remove_left_overs(directory)
    folder = directory / temporary_name(name)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def scratch_folder(name: str) -> Iterator[Path]:
    """A folder of this process alone among the temporary files of the system, gone in the end.

    Should the process be killed, the next one that asks for such a folder removes it.
    """
    directory = Path(tempfile.gettempdir())
    remove_left_overs(directory)
    prefix, suffix = temporary_name(f"{name}.*").split("*")
    with tempfile.TemporaryDirectory(prefix=prefix, suffix=suffix, dir=directory) as folder:
        yield Path(folder)


def temporary_name(name: str) -> str:
    """What ``name`` is called while it is made; if this process is killed, anybody removes it."""
    return f".{name}.{_host()}.{os.getpid()}.building"


def _is_running(process: int) -> bool:
    if os.name != "posix":
        return True  # there, signal 0 would end the process
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


@cache
def _host() -> str:
    """The machine or, where processes have numbers of their own, the container on it."""
    from socket import gethostname

    host = re.sub(r"[^0-9a-z]", "-", gethostname().lower())[:32] or "-"
    with suppress(OSError):  # Linux alone tells
        space = re.sub(r"\D", "", str(Path("/proc/self/ns/pid").readlink()))
        return host if space == _INITIAL_SPACE else f"{host}-{space}"
    return host


def reserve(directory: Path, name: str) -> Path:
    """The path of a file to be written; raises BuildError when it cannot be."""
    _require_short(name)
    made = [one for one in (directory, *directory.parents) if not os.path.lexists(one)]
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise BuildError(
            f"{directory} is not a directory; choose another output with -o."
        ) from error
    except OSError as error:
        for folder in made:
            with suppress(OSError):
                folder.rmdir()
        raise BuildError(
            f"Cannot create {directory}: {error.strerror}; choose another -o."
        ) from error
    if not os.access(directory, os.W_OK | os.X_OK):
        raise BuildError(f"Cannot write into {directory}; choose another output with -o.")
    target = directory / name
    if os.path.lexists(target):
        raise _exists(target)
    for suffix in ("-journal", "-wal", "-shm"):
        # SQLite would write what is in it into the new file.
        beside = directory / (name + suffix)
        if os.path.lexists(beside):
            raise BuildError(
                f"{beside} is left over from an earlier file {name}; remove it, or choose another "
                "--output-name."
            )
    return target


@contextmanager
def published(
    target: Path, *, overwrite: bool = False, instead: Callable[[], Path] | None = None
) -> Iterator[Path]:
    """A temporary path beside ``target``; it is synced and renamed when the block succeeds.

    On any exception the temporary file is removed and ``target`` does not appear, or stays as it
    was. Without ``overwrite`` it is a BuildError when ``target`` is there by then, unless
    ``instead`` finds another path.
    """
    remove_left_overs(target.parent)
    temporary = target.with_name(temporary_name(target.name))
    try:
        yield temporary
        with temporary.open("r+b") as file:  # Windows syncs only what may be written
            os.fsync(file.fileno())
        if overwrite:
            temporary.replace(target)
        else:
            _rename_to_free(temporary, target, instead)
        _sync_directory(target.parent)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


@contextmanager
def written(output: Path, *, overwrite: bool = True) -> Iterator[BinaryIO]:
    """A stream whose content becomes ``output`` once everything is written.

    Missing directories are made, and removed again on any exception; BuildError when the file
    cannot be written, or is there and may not be overwritten.
    """
    if not output.name:
        raise BuildError(f"{output} is a directory; choose another output.")
    with (
        _made(output.parent, output),
        published(output, overwrite=overwrite) as temporary,
        temporary.open("xb") as stream,
    ):
        yield stream
        stream.flush()


@contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """A stream whose content takes the place of ``path``, whole; OSError. It is not synced."""
    temporary = path.with_name(temporary_name(path.name))
    try:
        with temporary.open("wb") as stream:
            yield stream
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def written_together(directory: Path) -> Iterator[Path]:
    """A folder whose files, written as by :func:`written`, move into ``directory`` in the end.

    All of them or none: on any exception none is there. BuildError when they cannot be.
    """
    with _made(directory, directory), temporary_folder(directory, "files") as folder:
        yield folder
        moved: list[Path] = []
        try:
            for path in sorted(folder.iterdir()):
                target = directory / path.name
                if not os.path.lexists(target):
                    moved.append(target)
                path.replace(target)
            _sync_directory(directory)
        except BaseException:
            for path in moved:
                with suppress(OSError):
                    path.unlink()
            raise


@contextmanager
def _made(directory: Path, output: Path) -> Iterator[None]:
    """Make ``directory`` for ``output``; what was made is removed on any exception."""
    folders = directory, *directory.parents
    made = [folder for folder in folders if not os.path.lexists(folder)]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        yield
        made.clear()
    except OSError as error:
        there = next(folder for folder in folders if os.path.lexists(folder))
        if not there.is_dir():
            raise BuildError(f"{there} is not a directory; choose another output.") from error
        raise BuildError(f"Cannot write {output}: {error.strerror}.") from error
    finally:
        for folder in made:
            with suppress(OSError):
                folder.rmdir()


def _rename_to_free(temporary: Path, target: Path, instead: Callable[[], Path] | None) -> None:
    while True:
        try:
            _rename(temporary, target)
        except BuildError:
            if instead is None:
                raise
            target = instead()
        else:
            return


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
