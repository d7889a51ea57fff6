"""How ``flow.bin`` is laid out, for those who write and those who read it; see docs/design/flow.md.

A head, then blocks: each has a head of its own that counts and checks what follows it.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum, IntFlag

import numpy as np

NAME = "flow.bin"
MAGIC = b"MSFLOW\0\0"
VERSION = 1
NONE = (1 << 32) - 1  # where a row names nothing


class Maker(IntEnum):
    """What made a tensor; ``kind`` of rows and makers."""

    UNKNOWN = 0  # it has no memory of its own that could be followed
    RECORD = 1  # a recorded call: ``maker`` is its number in dump.json
    PARAMETER = 2  # a weight as it was: ``maker`` is its name
    BUFFER = 3  # a buffer as it was: ``maker`` is its name
    GRADIENT = 4  # what is kept beside a parameter: ``maker`` is the parameter's name
    OUTSIDE = 5  # no recorded call put it out or wrote it: data, constants
    UNRECORDED = 6  # made by what is not recorded: ``maker`` is its name, or NONE


class Mark(IntFlag):
    """What else is known of a tensor; ``marks`` of rows."""

    VIEW = 1  # it lies in the memory of the maker's tensor, at other places of it
    IN_PLACE = 2  # the maker wrote it into memory that was there before
    UNINITIALISED = 4  # nobody has written all of it
    FROM_UNINITIALISED = 8  # it was computed from such memory
    SUM = 16  # the sum of what all makers made; without it each made a part of it
    INCOMPLETE = 32  # there may be more makers than are named
    SAME = 64  # the call put out a tensor that it was given


class Place(IntEnum):
    """Which tensors of a record: ``section`` and ``maker_section``."""

    INPUT = 0  # input_args and input_kwargs, or input
    OUTPUT = 1
    PARAMETERS = 2
    PARAMETERS_GRAD = 3
    INPUT_GRADIENTS = 4
    OUTPUT_GRADIENTS = 5


ROW = np.dtype(
    [
        ("record", "<u4"),
        ("position", "<u4"),
        ("maker", "<u4"),
        ("maker_position", "<u4"),
        ("more", "<u4"),  # number of the first further maker
        ("count", "<u4"),  # of further makers
        ("section", "u1"),
        ("kind", "u1"),
        ("maker_section", "u1"),
        ("marks", "u1"),
    ]
)
MAKER = np.dtype(
    [("maker", "<u4"), ("position", "<u4"), ("kind", "u1"), ("section", "u1"), ("spare", "<u2")]
)
CHECK = np.dtype("<u4")  # the CRC-32 of a record's name
LENGTH = np.dtype("<u4")  # the bytes of a name
MAKER_STRUCT = struct.Struct("<2I2B2x")

HEAD = struct.Struct("<8s3I8xI")  # magic, version, bytes of a row, of a further maker, CRC
BLOCK = struct.Struct("<6I")  # kind, count, first, CRC of the content, flags, CRC of this head
NAMES, RECORDS, MAKERS, ROWS = (
    int.from_bytes(text, "little") for text in (b"NAME", b"RECD", b"MAKE", b"ROWS")
)
# What each entry of a block takes; behind the lengths of names stand the names.
KINDS = {NAMES: LENGTH, RECORDS: CHECK, MAKERS: MAKER, ROWS: ROW}
PROVISIONAL = 1  # flag: of records that a later flush replaces


def packed_head() -> bytes:
    """What a file begins with."""
    content = HEAD.pack(MAGIC, VERSION, ROW.itemsize, MAKER.itemsize, 0)[:-4]
    return content + struct.pack("<I", zlib.crc32(content))


def packed_block(kind: int, count: int, first: int, content: bytes, flags: int = 0) -> bytes:
    """A block of ``count`` entries, of which ``first`` came before, padded to 8 bytes."""
    padded = content + b"\0" * (-len(content) % 8)
    head = BLOCK.pack(kind, count, first, zlib.crc32(padded), flags, 0)[:-4]
    return head + struct.pack("<I", zlib.crc32(head)) + padded
