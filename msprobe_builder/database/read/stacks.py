"""Call stacks of nodes."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass

from msprobe_builder.database.read.cells import optional_integer, text

LIBRARY = re.compile(r"(^|/)(site|dist)-packages/|(^|/)lib(64)?/python3[^/]*/|^<(frozen|string)")


@dataclass(frozen=True)
class StackFrame:
    """One frame; only ``source`` is set when the dump's entry had an unknown form."""

    file: str
    line: int
    function: str
    source: str

    @property
    def place(self) -> str:
        """Name of the file and line."""
        return f"{self.file.rpartition('/')[2]}:{self.line}"

    @property
    def is_library(self) -> bool:
        """Whether the file belongs to an installed package or to Python itself."""
        return LIBRARY.search(self.file.replace("\\", "/")) is not None


def read_stack(connection: sqlite3.Connection, stack_id: object) -> tuple[StackFrame, ...]:
    """Frames of a stack, innermost first; none of an id that is NULL."""
    rows = connection.execute(
        "SELECT file.value, line, function.value, source.value"
        " FROM stack JOIN frame USING (frame_id)"
        " LEFT JOIN text AS file ON file.text_id = file_id"
        " LEFT JOIN text AS function ON function.text_id = function_id"
        " LEFT JOIN text AS source ON source.text_id = source_id"
        " WHERE stack_id = ? ORDER BY depth",
        (stack_id,),
    )
    return tuple(
        StackFrame(text(file), optional_integer(line) or 0, text(function), text(source))
        for file, line, function, source in rows
    )


def read_source(connection: sqlite3.Connection, node: int) -> str | None:
    """File and line of the user's code that made a call, the innermost outside of libraries."""
    frames = _frames_of(connection, node)
    own = next((one for one in frames if not one.is_library), frames[0] if frames else None)
    return None if own is None else own.place


def read_code(connection: sqlite3.Connection, node: int, place: str | None) -> str:
    """What was recorded of the line at ``place`` that made a call; empty where nothing was."""
    frames = _frames_of(connection, node)
    return next((one.source.strip() for one in frames if one.place == place), "")


def _frames_of(connection: sqlite3.Connection, node: int) -> list[StackFrame]:
    found = connection.execute("SELECT stack_id FROM node WHERE node_id = ?", (node,)).fetchone()
    return [one for one in read_stack(connection, found and found[0]) if one.file]
