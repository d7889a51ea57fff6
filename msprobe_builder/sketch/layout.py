"""How ``sketch.bin`` is laid out, for those who write and those who read it; see format.md.

A head, then blocks: each has a head of its own that counts and checks what follows it.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from msprobe_builder.sketch.definition import NUMBERS

NAME = "sketch.bin"
MAGIC = b"MSSKETCH"
VERSION = 1

ROW = np.dtype([("numbers", "<f4", (NUMBERS,)), ("nans", "<u4"), ("infinities", "<u4")])
# Which row a tensor of dump.json has: ``position`` counts the tensors of a section of a record.
PLACE = np.dtype([("record", "<u4"), ("section", "<u2"), ("position", "<u2"), ("row", "<u4")])
MOST_POSITIONS = 1 << 16
NO_ROW = -1

HEAD = struct.Struct("<8s4I12xI")  # magic, version, bytes of a row, numbers, bytes of a place, CRC
BLOCK = struct.Struct("<2I2I4xI")  # kind, count, first, CRC of the content, CRC of this head
ROWS, PLACES = 0x53574F52, 0x43414C50  # "ROWS" and "PLAC" as their bytes read
KINDS = {ROWS: ROW, PLACES: PLACE}
_MOST = (1 << 32) - 1


def rows_of(numbers: npt.NDArray[Any], nans: Any, infinities: Any) -> npt.NDArray[Any]:
    """Rows of sketches, (n, NUMBERS), and of how many elements each leaves out."""
    rows = np.empty(len(numbers), ROW)
    with np.errstate(over="ignore"):
        rows["numbers"] = numbers
    rows["nans"] = np.minimum(nans, _MOST)
    rows["infinities"] = np.minimum(infinities, _MOST)
    return rows


def packed_head() -> bytes:
    """What a file begins with."""
    content = HEAD.pack(MAGIC, VERSION, ROW.itemsize, NUMBERS, PLACE.itemsize, 0)[:-4]
    return content + struct.pack("<I", zlib.crc32(content))


def packed_block(kind: int, first: int, content: bytes) -> bytes:
    """A block of whole rows or places, of which ``first`` came before, padded to 8 bytes."""
    count = len(content) // KINDS[kind].itemsize
    head = BLOCK.pack(kind, count, first, zlib.crc32(content), 0)[:-4]
    return head + struct.pack("<I", zlib.crc32(head)) + content + b"\0" * (-len(content) % 8)
