"""Whether this process is a program of ours, or somebody else's that calls us."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_programs: list[int] = []


def begin_program() -> None:
    """From now on nothing in this process is anybody's but ours, until it ends."""
    _programs.append(os.getpid())


def is_program() -> bool:
    """Whether this very process has begun as a program of ours."""
    return os.getpid() in _programs


_THREADS = "OPENBLAS_NUM_THREADS"


@contextmanager
def loading_numpy() -> Iterator[None]:
    """While a program of ours may load numpy: it starts no threads for linear algebra.

    One for each core, they spin for 60 ms before they sleep, and nothing here gives them work. What
    the environment says of them counts, and whoever starts behind this finds it as it was.
    """
    if not is_program() or _THREADS in os.environ:
        yield
        return
    os.environ[_THREADS] = "1"
    try:
        yield
    finally:
        del os.environ[_THREADS]
