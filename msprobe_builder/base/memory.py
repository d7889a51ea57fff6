"""How much memory a program took, and doing without looking for what is left of it."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]


def peak_memory() -> int | None:
    """Bytes of the largest process so far, this one or a child; None on Windows."""
    if resource is None:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return unit * max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """While millions of objects are made but no cycles: looking for these takes as long again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
