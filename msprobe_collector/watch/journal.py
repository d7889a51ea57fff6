"""``replica_*.bin``: what one rank has of a step that its replicas have alike, for them to read.

Blocks are appended while the step is recorded; who reads takes what is whole, and waits for nothing
longer than it says. A block holds entries as JSON and sketches.
"""

from __future__ import annotations

import json
import os
import struct
import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from msprobe_builder.files.regular import read_part
from msprobe_builder.sketch.definition import FLAT
from msprobe_builder.sketch.layout import ROW as SKETCH_ROW
from msprobe_collector.watch.reference import Shown, numbers_of

CALLS, UPDATES = "replica_calls.bin", "replica_updates.bin"
_HEAD = struct.Struct("<8s4I")  # magic, bytes of entries, sketches, whether a window ends, CRC
_MAGIC = b"MSREPLIC"
_MOST = 1 << 30  # bytes of a block
ROW = np.dtype([("numbers", "<f4", (FLAT,)), ("nans", "<u4"), ("infinities", "<u4")])
_LOOKS_EVERY = 0.005  # seconds


class Entry(NamedTuple):
    """Of one call, or of a parameter when its optimizer steps."""

    key: str
    plain: int  # a checksum of what is given beside tensors
    shown: list[Shown]


class JournalWriter:
    """Appends to the file of one rank and step."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o640)

    def append(self, entries: Sequence[Entry], rows: npt.NDArray[Any], *, is_over: bool) -> None:
        """``rows`` continue those before, with the fields of ROW; OSError if it cannot be."""
        text = json.dumps([_plain(one) for one in entries], separators=(",", ":")).encode()
        own = np.empty(len(rows), ROW)
        own["numbers"] = rows["numbers"][:, :FLAT]
        own["nans"], own["infinities"] = rows["nans"], rows["infinities"]
        content = text + own.tobytes()
        head = _HEAD.pack(_MAGIC, len(text), len(own), is_over, zlib.crc32(content))
        rest = memoryview(head + content)
        while rest:
            rest = rest[os.write(self._file, rest) :]

    def close(self) -> None:
        with suppress(OSError):
            os.close(self._file)


class JournalReader:
    """Follows the file of another rank, which may not be there yet."""

    has_sketches = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self._end = 0
        self._rows = np.empty(0, ROW)
        self.entries: dict[str, Entry] = {}
        self.windows = 0  # that have ended

    def rows(self, wanted: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Sketches by their numbers."""
        return self._rows[wanted]

    def wait_for(self, windows: int, seconds: float) -> bool:
        """Until so many windows have ended, or it has taken too long; whether they have."""
        last = time.monotonic() + seconds
        self.read()
        while self.windows < windows and time.monotonic() < last:
            time.sleep(_LOOKS_EVERY)
            self.read()
        return self.windows >= windows

    def read(self) -> None:
        """Take all whole blocks that have come; ValueError for what is no block of ours."""
        with suppress(FileNotFoundError):
            while len(head := read_part(self._path, self._end, _HEAD.size)) == _HEAD.size:
                magic, size, count, is_over, check = _HEAD.unpack(head)
                length = size + count * ROW.itemsize
                if magic != _MAGIC or length > _MOST:
                    raise ValueError(f"{self._path} is damaged.")
                content = read_part(self._path, self._end + _HEAD.size, length)
                if len(content) < length:
                    return
                if zlib.crc32(content) != check:
                    raise ValueError(f"{self._path} is damaged.")
                self._take(content[:size], content[size:])
                self.windows += is_over
                self._end += _HEAD.size + length

    def _take(self, text: bytes, rows: bytes) -> None:
        for key, plain, shown in json.loads(text):
            self.entries[key] = Entry(key, plain, [_shown(*one) for one in shown])
        self._rows = np.concatenate([self._rows, np.frombuffer(rows, ROW)])


def _plain(entry: Entry) -> list[Any]:
    shown = [
        [
            one.where,
            one.is_made,
            one.item["dtype"],
            one.item["shape"],
            numbers_of(one.item),
            one.row,
        ]
        for one in entry.shown
    ]
    return [entry.key, entry.plain, shown]


def _shown(
    where: str, is_made: bool, dtype: str, shape: list[int], numbers: list[Any], row: int
) -> Shown:
    high, low, mean, norm = numbers
    item = {"dtype": dtype, "shape": shape, "Max": high, "Min": low, "Mean": mean, "Norm": norm}
    return Shown(where, is_made, item, row)


class Exchange:
    """Entries of one step on their way into a journal, or until that of another rank tells them."""

    def __init__(self, own: Path, other: Path | None) -> None:
        """With ``other`` entries are compared with that file, else written to ``own``."""
        self.rows = np.empty(0, SKETCH_ROW)
        self._written = 0
        self.reader = None if other is None else JournalReader(other)
        self._own = own
        self._writer: JournalWriter | None = None

    def take(self, rows: npt.NDArray[Any]) -> None:
        """The sketches that come next."""
        self.rows = np.concatenate([self.rows, rows])

    def write(self, entries: Sequence[Entry], *, is_over: bool) -> None:
        """Let the others read them."""
        if self._writer is None:
            self._writer = JournalWriter(self._own)
        self._writer.append(entries, self.rows[self._written :], is_over=is_over)
        self._written = len(self.rows)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
