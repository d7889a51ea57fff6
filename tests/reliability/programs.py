"""What is killed: programs that tell how far they are, so that a reader may kill them there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType

from msprobe_builder import BuildConfig, build
from msprobe_builder.command.main import main
from tests.plugin.changing import change, operation, report
from tests.plugin.conftest import client_of, node


def build_and_tell(told: Connection, npu: Path, bench: Path, out: Path) -> None:
    """Build a comparison; a dot for every 5,000 calls and returns of Python, "!" at its end."""
    with telling(told, 5000):
        build(BuildConfig(npu, bench), out, name="x", workers=1)


def run_and_tell(told: Connection, words: list[str]) -> None:
    """Run a command; a dot for every 200 calls and returns of Python, "!" when it has succeeded."""
    os.chdir(words[-1])
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    with telling(told, 200):
        assert main(words[:-1]) == 0


@contextmanager
def telling(told: Connection, calls: int) -> Iterator[None]:
    """A dot for so many calls and returns of Python, "!" when the block has succeeded."""
    count = 0

    def trace(_frame: FrameType, _event: str, _argument: object) -> None:
        nonlocal count
        count += 1
        if count % calls == 0:
            os.write(told.fileno(), b".")

    sys.setprofile(trace)
    yield
    sys.setprofile(None)
    os.write(told.fileno(), b"!")


def unmatch_and_tell(told: Connection, path: Path, first: int) -> None:
    """Unmatch all pairs from a node on: a dot before each, its name once that was answered."""
    ask = client_of(path.parent)
    for index in range(first, 600):
        detail = node(ask, file=path.name, index=index)
        if detail.HasField("bench"):
            os.write(told.fileno(), b".")
            report(change(ask, path.name, operation(index, detail.bench.index, "UNMATCH")))
            os.write(told.fileno(), detail.npu.name.encode() + b"\n")
