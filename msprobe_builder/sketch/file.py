"""Reads ``sketch.bin``, which is hostile until checked; ``layout.py`` says what it holds."""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from msprobe_builder.base.errors import BuildError
from msprobe_builder.files.mapped import give_back, mapped
from msprobe_builder.sketch.definition import NUMBERS
from msprobe_builder.sketch.layout import (
    BLOCK,
    HEAD,
    KINDS,
    MAGIC,
    PLACE,
    PLACES,
    ROW,
    ROWS,
    VERSION,
)


class Sketches(NamedTuple):
    """The content of a file: rows stay on disk until they are asked for."""

    path: Path
    content: mmap.mmap | bytes
    blocks: list[npt.NDArray[Any]]  # of ROW, behind each other
    starts: npt.NDArray[np.int64]  # the number of the first row of each block, and of all rows
    places: npt.NDArray[Any]  # of PLACE

    def rows(self, wanted: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Copies of the rows with these numbers, of ROW."""
        found = np.empty(len(wanted), ROW)
        block_of = np.searchsorted(self.starts, wanted, side="right") - 1
        for block in np.unique(block_of):
            here = block_of == block
            found[here] = self.blocks[block][wanted[here] - self.starts[block]]
        give_back(self.content)
        return found


def read_sketches(path: Path, records: int) -> Sketches | None:
    """What a file beside a dump.json of so many records holds; None where there is none.

    BuildError when it is damaged or of another dump. A block that the end of the file cuts off is
    what a killed run leaves, and is left out.
    """
    content = mapped(path)
    if content is None:
        return None
    parts: dict[int, list[npt.NDArray[Any]]] = {ROWS: [], PLACES: []}
    counts = {ROWS: 0, PLACES: 0}
    for kind, first, block in _blocks(path, content):
        if first != counts[kind]:
            raise _damaged(path, f"a block begins at {first:,} where {counts[kind]:,} came before")
        counts[kind] += len(block)
        parts[kind].append(block)
    starts = np.cumsum([0, *map(len, parts[ROWS])], dtype=np.int64)
    places = np.concatenate(parts[PLACES]) if parts[PLACES] else np.empty(0, PLACE)
    if len(places) and int(places["row"].max()) >= counts[ROWS]:
        raise _damaged(path, f"it names row {places['row'].max():,} of {counts[ROWS]:,}")
    if len(places) and int(places["record"].max()) >= records:
        raise _damaged(path, f"it names record {places['record'].max():,} of {records:,}")
    give_back(content)
    return Sketches(path, content, parts[ROWS], starts, places)


def _blocks(path: Path, content: mmap.mmap | bytes) -> Iterator[tuple[int, int, npt.NDArray[Any]]]:
    """Kind, number of the first and content of each whole block."""
    if len(content) < HEAD.size:
        return  # killed at the very start
    magic, version, row, numbers, place, check = HEAD.unpack_from(content)
    if magic != MAGIC:
        raise _damaged(path, "it does not begin as such a file does")
    if zlib.crc32(content[: HEAD.size - 4]) != check:
        raise _damaged(path, "the checksum of its head is wrong")
    if version != VERSION:
        raise BuildError(
            f"{path} has version {version} of its format, this program reads {VERSION}; "
            "update it, or move the file away to compare without sketches."
        )
    if (row, numbers, place) != (ROW.itemsize, NUMBERS, PLACE.itemsize):
        raise _damaged(path, f"its rows have {row} bytes with {numbers} numbers")
    at = HEAD.size
    while at + BLOCK.size <= len(content):
        head = content[at : at + BLOCK.size]
        kind, count, first, check, check_of_head = BLOCK.unpack(head)
        if zlib.crc32(head[:-4]) != check_of_head:
            raise _damaged(path, f"the checksum of the block at byte {at:,} is wrong")
        dtype = KINDS.get(kind)
        if dtype is None:
            name = struct.pack("<I", kind)
            raise _damaged(path, f"the block at byte {at:,} is of the unknown kind {name!r}")
        size = count * dtype.itemsize
        at += BLOCK.size
        if at + size > len(content):
            return  # cut off: the run was killed
        with memoryview(content) as view, view[at : at + size] as part:
            is_whole = zlib.crc32(part) == check
        if not is_whole:
            raise _damaged(path, f"the checksum of the {count:,} entries at byte {at:,} is wrong")
        yield kind, first, np.frombuffer(content, dtype, count, at)
        at += -(-size // 8) * 8


def _damaged(path: Path, why: str) -> BuildError:
    return BuildError(
        f"{path} is damaged: {why}; copy it again, or move it away to compare without sketches."
    )
