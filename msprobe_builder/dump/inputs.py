"""What a dump's files were when they were read: enough to notice that they have changed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

from msprobe_builder.dump.construct import construct_path
from msprobe_builder.dump.flow_file import flow_path
from msprobe_builder.dump.source import Source
from msprobe_builder.dump.stack import stack_path
from msprobe_builder.sketch.layout import NAME as SKETCHES

_DIGEST = 12  # bytes


def inputs_of(sources: Iterable[Source]) -> str | None:
    """A digest of names, sizes and times of all files of these ranks; None of dumps in memory.

    Where the files lie does not count: copies that keep the times are the same inputs. A file
    that is missing or cannot be asked is told apart from one that is there, and no error here.
    """
    digest = blake2b(digest_size=_DIGEST)
    for source in sources:
        if not isinstance(source, Path):
            return None
        for line in _files(source):
            digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _files(directory: Path) -> Iterator[str]:
    yield "rank\n"
    for path in (directory / "dump.json", construct_path(directory), stack_path(directory)):
        yield f"{path.name} {file_state(path)}\n"
    for path in (flow_path(directory), directory / SKETCHES):
        if path.exists():
            yield f"{path.name} {file_state(path)}\n"
    tensors = directory / "dump_tensor_data"
    try:
        with os.scandir(tensors) as entries:
            names = sorted(entry.name for entry in entries)
    except OSError:
        return
    for name in names:
        yield f"{name} {file_state(tensors / name)}\n"


def file_state(path: Path) -> str:
    """Size and time of a file as text, a dash when it is missing."""
    try:
        status = path.stat()
    except OSError:
        return "-"
    return f"{status.st_size} {status.st_mtime_ns}"
