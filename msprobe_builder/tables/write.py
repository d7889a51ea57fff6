"""Tables as files: workbook, CSV, Parquet; written as the rows come, in constant memory."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from msprobe_builder.base.errors import UsageError
from msprobe_builder.base.publish import written
from msprobe_builder.base.spreadsheet import FORMULA, harmless
from msprobe_builder.tables.columns import (
    DATA,
    DIFFERENCES,
    MERGED,
    MESSAGE,
    NUMERIC,
    RELATIVE_ERRORS,
    STACK,
    STATISTICS,
    TENSOR_ERRORS,
    Columns,
)
from msprobe_builder.tables.marks import RED, YELLOW
from msprobe_builder.tables.plain_rows import write_plain_row
from msprobe_builder.tables.rows import Cell, Row

FORMATS = ("xlsx", "csv", "parquet")
ROWS_OF_A_SHEET = 1_048_500  # what a spreadsheet program holds is 1,048,576
LONGEST_TEXT = 32_767  # characters of a cell of a workbook
# Characters that are shown of what is longer than the title of its column.
_WIDTHS = {
    "NPU Name": 60,
    "Bench Name": 60,
    "NPU Dtype": 16,
    "Bench Dtype": 16,
    "NPU Tensor Shape": 22,
    "Bench Tensor Shape": 22,
    **dict.fromkeys((*STATISTICS, *DIFFERENCES, *RELATIVE_ERRORS, *TENSOR_ERRORS.values()), 20),
    MESSAGE: 60,
    STACK: 60,
    DATA: 60,
    "Group": 60,
    **dict.fromkeys(MERGED, 60),
}
_FILLS = {RED: "#FF0000", YELLOW: "#FFFF00"}
_LEADS = frozenset(FORMULA)  # found without comparing one by one
_BATCH = 10_000  # rows of Parquet that are held at once
_LINES = 1000  # of CSV
_FIELDS_KEPT = 10_000

Write = Callable[[Row], None]


@contextmanager
def table_file(path: Path, columns: Columns) -> Iterator[Write]:
    """A function that writes one row; the file appears when all are written."""
    kind = path.suffix[1:].lower()
    if kind not in FORMATS:
        raise UsageError(f"{path} has none of the suffixes .xlsx, .csv, .parquet.")
    with written(path) as stream:
        if kind == "csv":
            yield from _csv(stream, columns)
        elif kind == "xlsx":
            yield from _workbook(stream, columns)
        else:
            yield from _parquet(stream, columns)


def number_of(cell: Cell) -> float | None:
    """A cell of a column of numbers as one: percent as such, None for ``N/A`` and other words."""
    if isinstance(cell, bool) or not isinstance(cell, str):
        return float(cell)
    text = cell.removesuffix("%")
    try:
        return float(text)  # also of Nan, inf and -inf
    except ValueError:
        return None


def _csv(stream: BinaryIO, columns: Columns) -> Iterator[Write]:
    fields, numbers = _Fields(), _Numbers()
    lines = [",".join(map(_field, columns.names))]

    def flush() -> None:
        lines.append("")  # the end of the last line
        stream.write("\n".join(lines).encode("utf-8", errors="replace"))
        lines.clear()

    def write(row: Row) -> None:
        lines.append(
            ",".join(
                [
                    fields[cell]
                    if type(cell) is str
                    else numbers[cell]
                    if type(cell) is float
                    else repr(cell)
                    for cell in row.cells
                ]
            )
        )
        if len(lines) >= _LINES:
            flush()

    yield write
    if lines:
        flush()


class _Fields(dict[str, str]):
    """Texts as they stand in a line; most stand in many, and are looked at once."""

    def __missing__(self, text: str) -> str:
        if len(self) >= _FIELDS_KEPT:
            self.clear()
        field = self[text] = _field(
            harmless(text) if text[:1] in _LEADS and number_of(text) is None else text
        )
        return field


class _Numbers(dict[float, str]):
    """Numbers as they stand in a line; what one call puts out, another one takes, on both sides."""

    def __missing__(self, value: float) -> str:
        if len(self) >= _FIELDS_KEPT:
            self.clear()
        shown = repr(value)
        if value:  # 0.0 and -0.0 are equal and not written alike
            self[value] = shown
        return shown


def _field(text: str) -> str:
    """A text in quotes where the library puts it there, which is asked only where it may."""
    if not ('"' in text or "," in text or "\n" in text or "\r" in text):
        return text
    line = io.StringIO(newline="")
    csv.writer(line, lineterminator="\n").writerow((text, ""))
    return line.getvalue()[: -len(",\n")]


class _UntilItFails:
    """A stream that takes everything after its first failure.

    What writes the archive of a workbook tries to end it once more when it is collected, where a
    second failure could only be printed as a traceback.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._at = stream.tell()
        self._failed = False

    def write(self, content: bytes) -> int:
        self._try(lambda: self._stream.write(content))
        self._at += len(content)
        return len(content)

    def seek(self, offset: int) -> int:
        self._try(lambda: self._stream.seek(offset))
        self._at = offset
        return offset

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        self._try(self._stream.flush)

    def _try(self, action: Callable[[], object]) -> None:
        if self._failed or self._stream.closed:
            return
        try:
            action()
        except OSError:
            self._failed = True
            raise


def _workbook(stream: BinaryIO, columns: Columns) -> Iterator[Write]:
    xlsxwriter = library("xlsxwriter")
    book = xlsxwriter.Workbook(_UntilItFails(stream), {"constant_memory": True})
    head = book.add_format({"bold": True})
    fills = {mark: book.add_format({"bg_color": colour}) for mark, colour in _FILLS.items()}
    letters = [
        library("xlsxwriter.utility").xl_col_to_name(place) for place in range(len(columns.names))
    ]
    sheet: Any = None
    line = ROWS_OF_A_SHEET

    def begin() -> None:
        nonlocal sheet, line
        count = len(book.worksheets())
        sheet = book.add_worksheet("Sheet1" if count == 0 else f"part_{count + 1}")
        sheet.freeze_panes(1, 1)
        for place, name in enumerate(columns.names):
            sheet.set_column(place, place, width_of(name))
            sheet.write_string(0, place, name, head)
        line = 0

    def end() -> None:
        """What can only be said of a sheet when its rows are counted."""
        sheet.autofilter(0, 0, line, len(columns.names) - 1)

    def write(row: Row) -> None:
        nonlocal line
        if line >= ROWS_OF_A_SHEET:
            end()
            begin()
        line += 1
        look = fills.get(row.mark)
        if look is None and write_plain_row(sheet, line, row.cells, letters):
            return
        for place, cell in enumerate(row.cells):
            # Text is written as text, whatever it begins with: nothing of a dump is a formula.
            if isinstance(cell, str):
                if cell:
                    sheet.write_string(line, place, _as_text(cell), look)
                elif look is not None:
                    sheet.write_blank(line, place, None, look)
            else:
                sheet.write_number(line, place, cell, look)

    begin()
    yield write
    end()
    book.close()


def _as_text(cell: str) -> str:
    """What fits into a cell; the library takes ``<r>…</r>`` for XML that it need not look at."""
    text = cell[:LONGEST_TEXT]
    return (
        f"{text[: LONGEST_TEXT - 1]} " if text.startswith("<r>") and text.endswith("</r>") else text
    )


def width_of(name: str) -> int:
    """Characters that a column shows: its title with the arrow of the filter, or what it holds."""
    title = sum(1 if letter.isascii() else 2 for letter in name)  # others are twice as wide
    return max(_WIDTHS.get(name, 0), title + 4)


def write_sheets(
    path: Path, head: Sequence[str], sheets: Mapping[str, Iterable[Sequence[Cell]]]
) -> None:
    """A workbook with a sheet per name, each with the same first line."""
    with written(path) as stream:
        book = library("xlsxwriter").Workbook(_UntilItFails(stream), {"constant_memory": True})
        bold = book.add_format({"bold": True})
        for name, rows in sheets.items():
            sheet = book.add_worksheet(name[:31])  # no longer names are allowed
            sheet.freeze_panes(1, 1)
            for place, title in enumerate(head):
                sheet.set_column(place, place, 60 if place == 0 else width_of(title))
                sheet.write_string(0, place, title, bold)
            for line, row in enumerate(islice(rows, ROWS_OF_A_SHEET), start=1):
                for place, cell in enumerate(row):
                    if isinstance(cell, str):
                        sheet.write_string(line, place, _as_text(cell))
                    else:
                        sheet.write_number(line, place, cell)
        book.close()


def _parquet(stream: BinaryIO, columns: Columns) -> Iterator[Write]:
    arrow, parquet = library("pyarrow"), library("pyarrow.parquet")
    fields = [
        (name, arrow.float64() if name in NUMERIC else arrow.string()) for name in columns.names
    ]
    schema = arrow.schema(fields)
    waiting: list[list[Cell]] = []
    with parquet.ParquetWriter(stream, schema) as writer:

        def flush() -> None:
            arrays = [
                arrow.array(typed(name, [cells[place] for cells in waiting]), kind)
                for place, (name, kind) in enumerate(fields)
            ]
            writer.write_batch(arrow.record_batch(arrays, schema=schema))
            waiting.clear()

        def write(row: Row) -> None:
            waiting.append(row.cells)
            if len(waiting) >= _BATCH:
                flush()

        yield write
        if waiting:
            flush()


def typed(name: str, cells: list[Cell]) -> list[float | None] | list[str | None]:
    """A column as numbers where it holds numbers, else as text."""
    if name in NUMERIC:
        return [number_of(cell) for cell in cells]
    return [str(cell) or None for cell in cells]


def library(name: str) -> Any:
    """A library of the extra ``tables``; UsageError without it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError(
            f"This table needs {name.partition('.')[0]}: pip install 'msprobe-graph[tables]',"
            " or write .csv."
        ) from error
