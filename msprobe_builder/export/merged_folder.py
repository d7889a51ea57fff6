"""The directory that merged dumps are exported to: whole sides or nothing.

::

    DIRECTORY/npu/step0/rank0, rank1, …    one per replica, numbered through
    DIRECTORY/bench/step0/rank0, …         when there is a bench side
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.publish import temporary_folder

SIDES = ("npu", "bench")


def check_target(directory: Path) -> None:
    """Raise BuildError unless ``directory`` is empty or does not exist; hidden entries count not.

    A build that was killed can leave hidden ones.
    """
    try:
        if directory.is_symlink() and not directory.exists():
            raise BuildError(f"{directory} is a broken link; choose another --export-merged.")
        if not directory.exists():
            return
        if not directory.is_dir():
            raise BuildError(f"{directory} is not a directory; choose another --export-merged.")
        if any(not entry.name.startswith(".") for entry in directory.iterdir()):
            raise BuildError(
                f"{directory} is not empty; empty it or choose another --export-merged."
            )
    except OSError as error:
        raise _cannot("read", directory, error) from error


@contextmanager
def export_folder(directory: Path) -> Iterator[Path]:
    """A hidden folder in ``directory``; its sides move up when the block succeeds.

    On any exception it is removed, and ``directory`` with it if it was made here.
    """
    check_target(directory)
    is_new = not directory.exists()
    try:
        with ExitStack() as stack:
            try:
                directory.mkdir(parents=True, exist_ok=True)
                temporary = stack.enter_context(temporary_folder(directory, "export"))
            except OSError as error:
                raise _cannot("write into", directory, error) from error
            yield temporary
            try:
                _move_up(temporary, directory)
            except OSError as error:
                raise _cannot("write into", directory, error) from error
    finally:
        if is_new:
            with suppress(OSError):  # it holds what was exported
                directory.rmdir()


def _move_up(temporary: Path, directory: Path) -> None:
    moved = []
    try:
        for side in SIDES:
            source = temporary / side
            if not source.is_dir():
                continue
            for unfinished in source.glob("*/.*"):
                shutil.rmtree(unfinished)
            source.rename(directory / side)
            moved.append(directory / side)
    except OSError:
        for path in moved:
            shutil.rmtree(path, ignore_errors=True)
        raise


def replica_folder(root: Path, side: int, step: int, replica: int) -> Path:
    """Where the merged dump of one replica lies."""
    return root / SIDES[side] / f"step{step}" / f"rank{replica}"


@contextmanager
def finished_folder(folder: Path) -> Iterator[Path]:
    """A hidden folder beside ``folder`` that gets its name when the block succeeds."""
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        try:
            temporary.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was faster with the same replica
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _cannot(what: str, directory: Path, error: OSError) -> BuildError:
    return BuildError(
        f"Cannot {what} {directory}: {error.strerror}; choose another --export-merged."
    )
