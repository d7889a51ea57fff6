"""Rows of a workbook without formats, written as one text each.

XlsxWriter holds, looks at and writes every cell by itself, which is three quarters of the time of
a table. In constant memory it writes a row when the next one begins; a row of plain cells can be
written there in its place. The test compares the workbooks of both ways byte by byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import isfinite
from typing import Any

_TEXTS_KEPT = 10_000  # most texts stand in many cells
_LONGEST = 10_000  # characters; the library takes three times as many, but looks at them closely
_LARGEST = 2**53  # whole numbers up to here are written as they are
# Of the library's own, and not promised: without them every row goes its usual way.
_INSIDE = ("_check_dimensions", "_write_single_row", "fh")


def write_plain_row(
    sheet: Any, line: int, cells: Sequence[str | float | int | bool], letters: Sequence[str]
) -> bool:
    """Write cells into a line (from 0) below all written before; False where nothing was.

    ``letters`` names the columns from the first on. Rows with texts beyond printable ASCII, with
    escapes of control characters, or with numbers that are not finite are left to the library.
    """
    if not all(hasattr(sheet, name) for name in _INSIDE):
        return False
    row = str(line + 1)
    parts = [f'<row r="{row}">']
    for letter, cell in zip(letters, cells, strict=True):
        if type(cell) is str:
            if not cell:
                continue
            content = _text(cell)
            if content is None:
                return False
            parts.append(f'<c r="{letter}{row}"{content}')
        elif (type(cell) is float and isfinite(cell)) or (
            type(cell) is int and -_LARGEST < cell < _LARGEST
        ):
            parts.append(f'<c r="{letter}{row}"><v>{cell:.16G}</v></c>')
        else:
            return False
    if len(parts) == 1:
        return False
    parts.append("</row>")
    for column in (0, len(cells) - 1):  # extends the range that the sheet says it has
        if sheet._check_dimensions(line, column):
            return False
    sheet._write_single_row(line)  # what waits from the row before
    sheet.fh.write("".join(parts))
    return True


@lru_cache(maxsize=_TEXTS_KEPT)
def _text(text: str) -> str | None:
    """What follows the place of a cell that holds a text; None where it takes more than this."""
    if (
        len(text) > _LONGEST
        or not (text.isascii() and text.isprintable())
        or text[0] == " "
        or text[-1] == " "
        or "_x" in text
        or text.startswith("<r>")
    ):
        return None
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f' t="inlineStr"><is><t>{escaped}</t></is></c>'
