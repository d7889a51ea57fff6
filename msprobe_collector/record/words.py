"""The exclusive or of bytes in words of eight, as the established recorder's ``xor`` has it."""

from __future__ import annotations

import sys

import numpy as np

WORD = 8  # bytes


def joined(content: bytes | memoryview) -> int:
    """All words joined; the last is filled up with zeros."""
    whole = len(content) // WORD * WORD
    result = int.from_bytes(content[whole:], sys.byteorder)
    if whole:
        result ^= int(np.bitwise_xor.reduce(np.frombuffer(content[:whole], np.uint64)))
    return result


def hexadecimal(number: int) -> str:
    """A word, as torch knows it with a sign, too, with sixteen digits."""
    return f"0x{number & (1 << 64) - 1:016x}"
