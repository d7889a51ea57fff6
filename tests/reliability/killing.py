"""Killing programs that tell how far they are; nothing here needs torch."""

from __future__ import annotations

import os
import random
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from types import FrameType

from tests.processes import COPIES

KILLS = int(os.environ.get("MSPROBE_KILLS", "200"))
_TOUCHING = frozenset(
    "open write writelines pwrite ftruncate truncate rename replace link unlink remove mkdir rmdir"
    " fsync close flush execute executemany executescript commit backup chmod".split()
)


def kill_after(program: Callable[..., None], arguments: tuple[object, ...], output: int) -> bytes:
    """Kill a process of its own once it has written so many bytes; all that it wrote."""
    reading, writing = COPIES.Pipe(duplex=False)
    process = COPIES.Process(target=program, args=(writing, *arguments))
    process.start()
    writing.close()
    with open(reading.fileno(), "rb", closefd=False) as told:
        said = told.read(output)
        process.kill()
        said += told.read()
    process.join()
    reading.close()
    return said


def moments_of(whole: bytes) -> Iterator[tuple[int, int]]:
    """When to kill: half of them where files are touched, the others anywhere in between."""
    said = re.search(rb"(\d+)!", whole)  # other threads may go on for a moment
    dots, touched = whole.count(b"."), int(said[1]) if said else 0
    moments = random.Random(3)  # noqa: S311
    few = min(KILLS // 2, touched)
    for deadly in sorted(moments.sample(range(1, touched + 1), few)):
        yield -1, deadly
    for _ in range(KILLS - few):
        yield moments.randrange(1, dots + dots // 10 + 2), 0


@contextmanager
def telling(told: Connection, calls: int, deadly: int = 0) -> Iterator[None]:
    """A dot for so many calls and returns of Python; at its end how often files were touched, "!".

    The process kills itself where it calls, or comes back from, what touches a file or a database
    for the ``deadly``-th time.
    """
    count = touched = 0

    def trace(_frame: FrameType, event: str, function: object) -> None:
        nonlocal count, touched
        count += 1
        if event in ("c_call", "c_return") and getattr(function, "__name__", "") in _TOUCHING:
            touched += 1
            if touched == deadly:
                os.kill(os.getpid(), signal.SIGKILL)
        if count % calls == 0:
            os.write(told.fileno(), b".")

    threading.setprofile(trace)  # of those that begin later
    sys.setprofile(trace)
    yield
    sys.setprofile(None)
    os.write(told.fileno(), f"{touched}!".encode())
