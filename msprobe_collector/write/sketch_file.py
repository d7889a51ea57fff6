"""``sketch.bin``: the sketches of a step, and which tensor of dump.json has which.

It grows by whole blocks. A killed run leaves at most one block unfinished, at its end.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msprobe_builder.base.codes import Section
from msprobe_builder.sketch.layout import (
    MOST_POSITIONS,
    PLACE,
    PLACE_STRUCT,
    PLACES,
    ROW,
    ROWS,
    packed_block,
    packed_head,
)

from msprobe_collector.write.records import Leaf

# The keys of a record in the order in which the tensors of a section count.
_SECTIONS = {
    "input_args": Section.INPUT,
    "input_kwargs": Section.INPUT,
    "input": Section.INPUT,
    "output": Section.OUTPUT,
    "parameters": Section.PARAMETERS,
}


class SketchFile:
    """Rows and places of one step and rank."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o640)
        self._rows = self._places = self.size = 0
        self._has_failed = False
        self._write(packed_head())

    def append(self, rows: Sequence[bytes], places: bytes) -> None:
        """Add ``rows``, then ``places`` that name them or earlier ones.

        OSError when the disk takes no more; the file then ends with the last whole block.
        """
        if self._has_failed:
            return  # rows are missing, so the numbers of others would be wrong
        blocks = b""
        if rows:
            blocks += packed_block(ROWS, self._rows, b"".join(rows))
        if places:
            blocks += packed_block(PLACES, self._places, places)
        self._write(blocks)
        self._rows += len(rows)
        self._places += len(places) // PLACE.itemsize

    def _write(self, content: bytes) -> None:
        rest, end = memoryview(content), self.size
        try:
            while rest:
                written = os.pwrite(self._file, rest, end)
                end += written
                rest = rest[written:]
        except OSError as error:
            self._has_failed = True
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self.size)
            error.filename = str(self._path)
            raise
        self.size = end

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._file)


class CountedSketches:
    """Counts what :class:`SketchFile` would write."""

    def __init__(self) -> None:
        self.size = 0  # bytes

    def append(self, rows: Sequence[bytes], places: bytes) -> None:
        """Count both."""
        self.size += len(rows) * ROW.itemsize + len(places)

    def close(self) -> None:
        """Nothing is open."""


def row_of(item: Any) -> int | None:
    """The number of the sketch of a described tensor."""
    try:
        row: int = item.row
    except AttributeError:
        return None
    return row


Shown = tuple[int, int, int]


def shown_in(name: str, record: Any) -> tuple[Shown, ...]:
    """Section, position in it and row of each tensor of a record that has a sketch."""
    sections = {} if name.endswith(".parameters_grad") else _SECTIONS
    found: list[Shown] = []
    positions = [0] * len(Section)
    for key, value in record.items():
        section = sections.get(key, Section.PARAMETERS_GRAD)
        positions[section] = _collect(value, section, positions[section], found)
    return tuple(found)


def _collect(value: Any, section: int, position: int, found: list[Shown]) -> int:
    """Append the tensors of a value, the first of which has ``position``; the next position."""
    kind = type(value)
    if kind is Leaf:
        if "dtype" not in value:
            return position
        row = row_of(value)
        if row is not None and position < MOST_POSITIONS:
            found.append((section, position, row))
        return position + 1
    if kind is dict:
        for part in value.values():
            position = _collect(part, section, position, found)
    elif kind is list or kind is tuple:
        for part in value:
            position = _collect(part, section, position, found)
    return position


def packed_places(record: int, shown: Sequence[Shown]) -> bytes:
    """The places of the tensors of a record of dump.json, counted from 0."""
    return b"".join([PLACE_STRUCT.pack(record, *one) for one in shown])
