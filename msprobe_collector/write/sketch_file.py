"""``sketch.bin``: the sketches of a step, and which tensor of dump.json has which.

It grows by whole blocks. A killed run leaves at most one block unfinished, at its end.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from msprobe_builder.dump.flow_layout import Place
from msprobe_builder.sketch.layout import (
    MOST_POSITIONS,
    NO_ROW,
    PLACE,
    PLACES,
    ROWS,
    packed_block,
    packed_head,
)
from msprobe_collector.one_pass import loaded
from msprobe_collector.write.records import Leaf, encode_text, record_text, shown_text

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
_HEADS = {key: f"{encode_text(key)}: " for key in SECTIONS}
_PARAMETERS_GRAD = int(Place.PARAMETERS_GRAD)
_POSITION = 16  # bits of a section, behind which the position stands


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


# Of each tensor that has a sketch its section and position, as one number of 32 bits, then its row.
Shown: TypeAlias = list[int]


def text_and_shown(name: str, record: Any) -> tuple[str, Shown]:
    """The text of a record in dump.json, and the tensors in it that have a sketch."""
    if type(record) is not dict or not record:
        return record_text(record), []
    is_gradient = name.endswith(".parameters_grad")
    found: Shown = []
    if loaded.compiled is not None:
        section_of_all = _PARAMETERS_GRAD if is_gradient else None
        made = loaded.compiled.text_and_shown(record, SECTIONS, section_of_all, found)
        return made, found
    positions: dict[int, int] = {}
    texts: list[str] = []
    for key, value in record.items():
        section = SECTIONS.get(key)
        head = f"{encode_text(str(key))}: " if section is None else _HEADS[key]
        if is_gradient:
            section = _PARAMETERS_GRAD
        if section is None or not value:
            texts.append(head + record_text(value))
            continue
        leaves: list[Leaf] = []
        texts.append(head + shown_text(value, leaves))
        position = positions.get(section, 0)
        for leaf in leaves:
            if "dtype" in leaf:
                row = getattr(leaf, "row", NO_ROW)
                if row != NO_ROW and position < MOST_POSITIONS:
                    found += (section | position << _POSITION, row)
                position += 1
        positions[section] = position
    return f"{{{', '.join(texts)}}}", found


def packed_places(first: int, shown: Sequence[Shown]) -> bytes:
    """The places of the tensors of records of dump.json, which are counted from ``first``."""
    counts = [len(one) // 2 for one in shown]
    packed = np.empty((sum(counts), 3), "<u4")
    packed[:, 0] = np.repeat(np.arange(first, first + len(counts)), counts)
    packed[:, 1:] = np.fromiter(chain.from_iterable(shown), "<u4", 2 * len(packed)).reshape(-1, 2)
    return packed.tobytes()
