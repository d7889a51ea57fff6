"""TensorBoard's file of records: each behind its length, with the masked CRC-32C of both.

TensorBoard's own writer computes checksums byte by byte in Python, which takes longer than all
else that writing a step does.
"""

from __future__ import annotations

import os
import platform
import struct
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_POLYNOMIAL = 0x82F63B78  # Castagnoli's, bits reversed (RFC 3720)
_ALL = 0xFFFFFFFF
_LENGTH = 256  # bytes of a segment
_Words = NDArray[np.uint32]


class Records:
    """A new file of events in a directory, as TensorBoard looks for them."""

    def __init__(self, directory: Path) -> None:
        # TensorBoard reads the files of a directory in the order of their names.
        begin = f"events.out.tfevents.{int(time.time()):010d}"
        name = f"{begin}.{platform.node()}.{os.getpid()}.{time.monotonic_ns()}"
        self._file = (directory / name).open("xb")

    def write(self, content: bytes) -> None:
        """Add a record; it is in the file when this returns."""
        length = struct.pack("<Q", len(content))
        parts = (length, _masked(length), content, _masked(content))
        self._file.write(b"".join(parts))
        self._file.flush()

    def close(self) -> None:
        """Nothing is written after this."""
        self._file.close()


def _masked(content: bytes) -> bytes:
    check = checksum(content)
    return struct.pack("<I", ((check >> 15 | check << 17) + 0xA282EAD8) & _ALL)


def checksum(content: bytes) -> int:
    """The CRC-32C of some bytes.

    It is linear, so that all segments are followed at once: zeros before the first leave a register
    of zeros as it is, and what a segment leaves goes through zeros of the length of those behind.
    """
    segments = -(-len(content) // _LENGTH)
    if segments < 2:
        return _ALL ^ _through(content, _ALL)
    padded = np.zeros(segments * _LENGTH, np.uint8)
    padded[-len(content) :] = np.frombuffer(content, np.uint8)
    padded[-len(content) :][:4] ^= 0xFF  # the register begins with ones
    left = np.zeros(segments, np.uint32)
    for column in np.ascontiguousarray(padded.reshape(segments, _LENGTH).T):
        left = _TABLE[(left ^ column) & 0xFF] ^ left >> 8
    whole = 0
    for one in left.tolist():
        low = _BEHIND[0][whole & 255] ^ _BEHIND[1][whole >> 8 & 255]
        whole = one ^ low ^ _BEHIND[2][whole >> 16 & 255] ^ _BEHIND[3][whole >> 24]
    return _ALL ^ whole


def _through(content: bytes, register: int) -> int:
    for byte in content:
        register = _STEPS[(register ^ byte) & 0xFF] ^ register >> 8
    return register


def _steps() -> list[int]:
    """What each value of the lowest byte leaves of the register after eight bits."""
    found = list(range(256))
    for _ in range(8):
        found = [one >> 1 ^ (_POLYNOMIAL if one & 1 else 0) for one in found]
    return found


_STEPS = _steps()
_TABLE: _Words = np.array(_STEPS, np.uint32)


def _behind() -> list[list[int]]:
    """What a segment of zeros makes of a register, by each of its four bytes."""
    left = np.arange(256, dtype=np.uint32) << np.array([[0], [8], [16], [24]], np.uint32)
    for _ in range(_LENGTH):
        left = _TABLE[left & 0xFF] ^ left >> 8
    found: list[list[int]] = left.tolist()
    return found


_BEHIND = _behind()
