"""Rows that are written at once: byte by byte what the library writes cell by cell."""

from __future__ import annotations

import zipfile
from pathlib import Path

import openpyxl
import pytest

from msprobe_builder.dump.task import Task
from msprobe_builder.tables import write
from msprobe_builder.tables.columns import columns_of
from msprobe_builder.tables.marks import RED
from msprobe_builder.tables.rows import Cell, Row

_TEXTS = (
    *("N/A", "", "=1+1", "<class 'int'>", "a & b", '"quoted"', "&amp;", "tab\there", "line\nbreak"),
    *(" before", "after ", " ", "_x0041_", "_x", "\x00\x1f\x7f", "中文", "\ufffe"),
    *("x" * 10_001, "y" * 40_000, "0.1%", "Nan", "-inf", "]]>", "<r>", "<r><t>a</t></r>"),
)
_NUMBERS = (0, 0.0, -0.0, 1, True, 0.1, -1.5e-300, 1e22, 123456789.123456789, 2**53, 2**70, 5e-324)


def _written(path: Path, rows: list[Row]) -> dict[str, bytes]:
    with write.table_file(path, columns_of(Task.MD5)) as write_row:
        for row in rows:
            write_row(row)
    with zipfile.ZipFile(path) as archive:
        return {
            name: archive.read(name)
            for name in archive.namelist()
            if name != "docProps/core.xml"  # holds the time
        }


def test_a_row_at_once_is_what_the_library_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    width = len(columns_of(Task.MD5).names)
    cells: list[Cell] = [*_TEXTS, *_NUMBERS]
    rows = [Row([*["plain"] * place, cell], 0, False) for place in (0, 3) for cell in cells]
    rows += [Row([cell, "marked"], 0, True, mark=RED) for cell in cells[::5]]
    rows += [Row(["", ""], 0, False), Row(cells[-3:], 0, False)]
    for row in rows:
        row.cells += [""] * (width - len(row.cells))
    monkeypatch.setattr(write, "ROWS_OF_A_SHEET", 31)
    at_once = _written(tmp_path / "at_once.xlsx", rows)
    counted = iter(range(10**6))

    def never(*_: object) -> bool:
        next(counted)
        return False

    monkeypatch.setattr(write, "write_plain_row", never)
    assert at_once == _written(tmp_path / "by_cell.xlsx", rows)
    assert next(counted) > len(cells)
    assert len([name for name in at_once if "/sheet" in name and name.endswith(".xml")]) > 1


def test_what_looks_like_xml_of_a_workbook_stays_text(tmp_path: Path) -> None:
    """The library writes text in ``<r>`` as it stands: it could break the file."""
    hostile = "<r><t>a</r>"
    width = len(columns_of(Task.MD5).names)
    path = tmp_path / "hostile.xlsx"
    with write.table_file(path, columns_of(Task.MD5)) as write_row:
        for mark in ("", RED):
            write_row(Row([hostile, *[""] * (width - 1)], 0, bool(mark), mark=mark))
    sheet = openpyxl.load_workbook(path).active
    assert sheet is not None
    assert [str(sheet.cell(line, 1).value).strip() for line in (2, 3)] == [hostile] * 2
