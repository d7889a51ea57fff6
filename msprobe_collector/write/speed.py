"""How fast a disk takes what is written to it."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

_SAMPLE_BYTES = 32_000_000


def bytes_per_second(folder: Path) -> float:
    """Write a file of 32 MB to the disk that ``folder`` is on, or will be, and remove it."""
    while not folder.exists():
        folder = folder.parent
    content = os.urandom(1_000_000)
    with tempfile.TemporaryFile(dir=folder) as file:
        begin = time.perf_counter()
        for _ in range(_SAMPLE_BYTES // len(content)):
            file.write(content)
        file.flush()
        os.fsync(file.fileno())
        return _SAMPLE_BYTES / max(time.perf_counter() - begin, 1e-9)
