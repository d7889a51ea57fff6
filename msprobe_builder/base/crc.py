"""The CRC-32 of many bytes."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable
from typing import TypeAlias

Crc32: TypeAlias = "Callable[[bytes | memoryview, int], int]"


@functools.cache
def crc32() -> Crc32:
    """isal's function where it is installed: several times as fast as zlib's, the same number."""
    try:
        from isal.isal_zlib import crc32 as found
    except ImportError:
        return zlib.crc32
    return found
