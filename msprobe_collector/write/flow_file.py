"""``flow.bin``: which record made each tensor that a call is given.

It grows by whole blocks; the records that may still be replaced stand at its end and are written
anew each time. A killed run leaves at most one block unfinished, at the end.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np

from msprobe_builder.dump.flow_layout import (
    CHECK,
    LENGTH,
    MAKER,
    MAKERS,
    NAMES,
    PROVISIONAL,
    RECORDS,
    ROW,
    ROWS,
    packed_block,
    packed_head,
)


class Entries(NamedTuple):
    """What is appended at once: names, those of records, and packed makers and rows."""

    names: Sequence[str]
    records: Sequence[str]
    makers: bytes
    rows: bytes


class FlowFile:
    """The file of one step and rank."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o640)
        self._end = self.size = 0  # bytes that last, and all
        self._counts = dict.fromkeys((NAMES, RECORDS, MAKERS, ROWS), 0)
        self._write(packed_head(), b"")

    def append(self, lasting: Entries, provisional: Entries) -> None:
        """Add what lasts, and behind it what the next call replaces; OSError as of a full disk."""
        before = dict(self._counts)
        blocks = self._packed(lasting, 0)
        after = dict(self._counts)
        passing = self._packed(provisional, PROVISIONAL)
        self._counts = before
        self._write(blocks, passing)
        self._counts = after

    def _packed(self, entries: Entries, flags: int) -> bytes:
        texts = [name.encode() for name in entries.names]
        lengths = b"".join([len(text).to_bytes(LENGTH.itemsize, "little") for text in texts])
        checks = np.array(list(map(crc32, map(str.encode, entries.records))), CHECK)
        parts = (
            (NAMES, len(texts), lengths + b"".join(texts)),
            (RECORDS, len(checks), checks.tobytes()),
            (MAKERS, len(entries.makers) // MAKER.itemsize, entries.makers),
            (ROWS, len(entries.rows) // ROW.itemsize, entries.rows),
        )
        blocks = b""
        for kind, count, content in parts:
            if count:
                blocks += packed_block(kind, count, self._counts[kind], content, flags)
                self._counts[kind] += count
        return blocks

    def _write(self, lasting: bytes, passing: bytes) -> None:
        rest, end = memoryview(lasting + passing), self._end
        try:
            os.ftruncate(self._file, self._end)
            while rest:
                written = os.pwrite(self._file, rest, end)
                end += written
                rest = rest[written:]
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._end)
            error.filename = str(self._path)
            raise
        self.size = end
        self._end += len(lasting)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._file)


class CountedFlow:
    """Counts what :class:`FlowFile` would write."""

    def __init__(self) -> None:
        self._lasting = self._passing = 0

    def append(self, lasting: Entries, provisional: Entries) -> None:
        """Count both."""
        self._lasting += _bytes_of(lasting)
        self._passing = _bytes_of(provisional)

    @property
    def size(self) -> int:
        """Bytes."""
        return self._lasting + self._passing

    def close(self) -> None:
        """Nothing is open."""


def _bytes_of(entries: Entries) -> int:
    names = sum(LENGTH.itemsize + len(name.encode()) for name in entries.names)
    records = len(entries.records) * CHECK.itemsize
    return names + records + len(entries.makers) + len(entries.rows)
