"""``sketch.bin``: the sketches of a step, and which tensor of dump.json has which.

It grows by whole blocks. A killed run leaves at most one block unfinished, at its end.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy.typing as npt

from msprobe_builder.dump.flow_layout import Place
from msprobe_builder.sketch.layout import (
    MOST_POSITIONS,
    NO_ROW,
    PLACE,
    PLACE_STRUCT,
    PLACES,
    ROWS,
    packed_block,
    packed_head,
)
from msprobe_collector.write.records import Leaf

# The keys of a record in the order in which the tensors of a section count.
SECTIONS = {
    "input_args": int(Place.INPUT),
    "input_kwargs": int(Place.INPUT),
    "input": int(Place.INPUT),
    "output": int(Place.OUTPUT),
    "parameters": int(Place.PARAMETERS),
    "input_gradients": int(Place.INPUT_GRADIENTS),
    "output_gradients": int(Place.OUTPUT_GRADIENTS),
}
_PARAMETERS_GRAD = int(Place.PARAMETERS_GRAD)


class SketchFile:
    """Rows and places of one step and rank."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o640)
        self._rows = self._places = self.size = 0
        self._has_failed = False
        self._write(packed_head())

    def append(self, rows: npt.NDArray[Any], places: bytes) -> None:
        """Add ``rows``, of ROW, then ``places`` that name them or earlier ones.

        OSError when the disk takes no more; the file then ends with the last whole block.
        """
        if self._has_failed:
            return  # rows are missing, so the numbers of others would be wrong
        blocks = b""
        if len(rows):
            blocks += packed_block(ROWS, self._rows, rows.tobytes())
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

    def append(self, rows: npt.NDArray[Any], places: bytes) -> None:
        """Count both."""
        self.size += rows.nbytes + len(places)

    def close(self) -> None:
        """Nothing is open."""


Shown: TypeAlias = tuple[int, int, int]


def shown_in(name: str, record: Any) -> tuple[Shown, ...]:
    """Section, position in it and row of each tensor of a record that has a sketch."""
    is_gradient = name.endswith(".parameters_grad")
    found: list[Shown] = []
    positions: dict[int, int] = {}
    for key, value in record.items():
        section = _PARAMETERS_GRAD if is_gradient else SECTIONS.get(key)
        if section is not None and value:
            parts = value if type(value) is list else (value,)
            positions[section] = _collect(parts, section, positions.get(section, 0), found)
    return tuple(found)


def _collect(parts: Iterable[Any], section: int, position: int, found: list[Shown]) -> int:
    """Append the tensors of a value, the first of which has ``position``; the next position."""
    for part in parts:
        kind = type(part)
        if kind is Leaf:
            if "dtype" in part:
                row = getattr(part, "row", NO_ROW)
                if row != NO_ROW and position < MOST_POSITIONS:
                    found.append((section, position, row))
                position += 1
        elif kind is list or kind is tuple:
            position = _collect(part, section, position, found)
        elif kind is dict:
            position = _collect(part.values(), section, position, found)
    return position


def packed_places(record: int, shown: Sequence[Shown]) -> bytes:
    """The places of the tensors of a record of dump.json, counted from 0."""
    return b"".join([PLACE_STRUCT.pack(record, *one) for one in shown])
