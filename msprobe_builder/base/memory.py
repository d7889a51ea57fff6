"""How much memory a program took, and doing without looking for what is left of it."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache

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


@cache
def leave_modules_alone() -> None:
    """From now on garbage is not looked for in what there is, such as modules; in a process once.

    Each of the longest looks goes through a hundred thousand objects of modules.
    """
    gc.freeze()


def give_back_pieces() -> None:
    """Give back what many small things have left, where the C library keeps it for later."""
    import ctypes

    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


_ARRAY = 8 << 20  # bytes; smaller ones are made and freed so often that this would take time
_KEPT = 64 << 20  # bytes of smaller ones that are kept for those that come next
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h


def give_back_arrays() -> None:
    """Let this process give large arrays back to the system as soon as they are freed.

    glibc keeps what is below 32 MB for later, in pieces that larger arrays do not fit into: a sixth
    of the memory of a million calls. Where it is told so it keeps next to nothing, and the system
    clears each array anew: a fifth of a verdict. Other C libraries are left as they are.
    """
    import ctypes

    with suppress(AttributeError, OSError, TypeError):
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, _ARRAY)
        library.mallopt(_TRIM_THRESHOLD, _KEPT)
