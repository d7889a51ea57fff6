"""The hidden folder in which the steps and ranks of a running build lie until they are joined.

It has the name of the request, so that an interrupted build is found again, and a lock that ends
with the process that holds it, so that nobody takes the folder of a build that runs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from itertools import count
from pathlib import Path
from uuid import uuid4

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.base.publish import temporary_name
from msprobe_builder.base.sources import sources_digest
from msprobe_builder.base.version import __version__
from msprobe_builder.dump.inputs import file_state
from msprobe_builder.pipeline.config import BuildConfig

try:
    from fcntl import LOCK_EX, LOCK_NB, flock

    _CAN_LOCK = True
except ImportError:  # Windows
    _CAN_LOCK = False

_PREFIX, _SUFFIX = ".ranks-", ".building"
_LOCK = "lock"


@contextmanager
def shard_folder(output: Path, request: str, *, resume: bool) -> Iterator[Path]:
    """The folder for the shards of one build, a directory in ``output``.

    With ``resume`` it may hold what an interrupted build of the same request had finished, and it
    stays when the block is left by an exception and something in it is finished. Without, it
    begins empty and goes in the end, as do those that other builds left behind. BuildError
    when another build of this request is running, and this one would go on from it.
    """
    if resume:
        folder = output / f"{_PREFIX}{request}{_SUFFIX}"
        lock = _lock(folder)
        if lock is None:
            raise BuildError(
                f"Another build of the same request runs in {output}; wait for it, or choose "
                "another output with -o."
            )
    else:
        _remove_left_overs(output)
        folder, lock = _new_folder(output, request)
    is_kept = False
    try:
        yield folder
    except BaseException:
        is_kept = resume and bool(finished_shards(folder))
        raise
    finally:
        if is_kept:
            for part in folder.glob("*.part"):
                part.unlink(missing_ok=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def finished_shards(folder: Path) -> list[Path]:
    """What of a build is finished."""
    return sorted(folder.glob("*.shard"))


def passing_name() -> str:
    """A name of a request that no later build goes on from."""
    return temporary_name(uuid4().hex[:16]).removeprefix(".").removesuffix(_SUFFIX)


def request_name(config: BuildConfig) -> str:
    """A short name of what is asked for and of the code that does it.

    UsageError when a side is in memory: no later process can ask for the same.
    """
    paths = (config.npu_path, config.bench_path, config.noise_path)
    sides = [one for one in paths if one is not None]
    if not all(isinstance(side, Path) for side in sides):
        raise UsageError("--resume needs dumps on disk; give paths, not dumps in memory.")
    options = config.options
    files = [file for file in vars(options).values() if isinstance(file, Path)]
    facts = (
        __version__,
        sources_digest(),
        [None if one is None else str(Path(str(one)).absolute()) for one in paths],
        repr(options),
        [file_state(file) for file in files],
        repr((config.npu_layout, config.bench_layout)),
    )
    return blake2b(repr(facts).encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


def _new_folder(output: Path, request: str) -> tuple[Path, int]:
    """An empty folder that nobody else has, and its lock."""
    for number in count():
        folder = output / f"{_PREFIX}{request}{f'-{number}' if number else ''}{_SUFFIX}"
        if not folder.exists():
            lock = _lock(folder)
            if lock is not None and not finished_shards(folder):
                return folder, lock
            if lock is not None:
                os.close(lock)
    raise AssertionError("count() has no end")


def _remove_left_overs(output: Path) -> None:
    """Remove the folders of builds that were killed."""
    for folder in output.glob(f"{_PREFIX}*{_SUFFIX}"):
        with suppress(OSError):
            lock = _lock(folder, or_else=False) if _CAN_LOCK else None
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def _lock(folder: Path, *, or_else: bool = True) -> int | None:
    """Make the folder when it is missing and take its lock; None when another process has it.

    ``or_else`` goes on without one on a file system that has none.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
    while True:
        folder.mkdir(exist_ok=True)
        try:
            lock = os.open(folder / _LOCK, flags, 0o666)
        except FileNotFoundError:  # removed between the two
            continue
        break
    if _CAN_LOCK:
        try:
            flock(lock, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        except OSError:  # a file system without locks
            if not or_else:
                os.close(lock)
                return None
        if not os.path.samestat(os.fstat(lock), _stat(folder / _LOCK)):
            os.close(lock)  # it was removed meanwhile by who had it
            return _lock(folder, or_else=or_else)
    return lock


def _stat(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except FileNotFoundError:
        return os.stat_result((0,) * 10)
