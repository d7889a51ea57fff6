"""Binary files from outside as memory that the system reads when it is looked at."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from msprobe_builder.base.errors import BuildError
from msprobe_builder.files.regular import open_regular


def mapped(path: Path) -> mmap.mmap | bytes | None:
    """The content of a regular file; None where there is none.

    BuildError when it cannot be read.
    """
    try:
        handle = open_regular(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BuildError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        size = os.fstat(handle).st_size
        return mmap.mmap(handle, size, access=mmap.ACCESS_READ) if size else b""
    finally:
        os.close(handle)


def give_back(content: mmap.mmap | bytes) -> None:
    """Let go of what was read of a mapped file, which counts as memory of this process until then.

    The system reads it again when it is looked at.
    """
    if isinstance(content, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        content.madvise(mmap.MADV_DONTNEED)
