"""How ``sketch.bin`` is laid out, for those who write and those who read it; see format.md.

A head, then blocks: each has a head of its own that counts and checks what follows it.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np

from msprobe_builder.sketch.definition import NUMBERS

NAME = "sketch.bin"
MAGIC = b"MSSKETCH"
VERSION = 1

ROW = np.dtype([("numbers", "<f4", (NUMBERS,)), ("nans", "<u4"), ("infinities", "<u4")])
# Which row a tensor of dump.json has: ``position`` counts the tensors of a section of a record.
PLACE = np.dtype([("record", "<u4"), ("section", "<u2"), ("position", "<u2"), ("row", "<u4")])
MOST_POSITIONS = 1 << 16

HEAD = struct.Struct("<8s4I12xI")  # magic, version, bytes of a row, numbers, bytes of a place, CRC
BLOCK = struct.Struct("<2I2I4xI")  # kind, count, first, CRC of the content, CRC of this head
ROWS, PLACES = 0x53574F52, 0x43414C50  # "ROWS" and "PLAC" as their bytes read
KINDS = {ROWS: ROW, PLACES: PLACE}
_COUNTS = struct.Struct("<2I")
_MOST = (1 << 32) - 1
PLACE_STRUCT = struct.Struct("<I2HI")


def packed_row(numbers: bytes, nans: int, infinities: int) -> bytes:
    """A row of ``numbers``, NUMBERS of float32."""
    return numbers + _COUNTS.pack(min(nans, _MOST), min(infinities, _MOST))


def packed_head() -> bytes:
    """What a file begins with."""
    content = HEAD.pack(MAGIC, VERSION, ROW.itemsize, NUMBERS, PLACE.itemsize, 0)[:-4]
    return content + struct.pack("<I", zlib.crc32(content))


def packed_block(kind: int, first: int, content: bytes) -> bytes:
    """A block of whole rows or places, of which ``first`` came before, padded to 8 bytes."""
    count = len(content) // KINDS[kind].itemsize
    head = BLOCK.pack(kind, count, first, zlib.crc32(content), 0)[:-4]
    return head + struct.pack("<I", zlib.crc32(head)) + content + b"\0" * (-len(content) % 8)
