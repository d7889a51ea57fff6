"""A comparison of configurations as lines, a workbook and a page."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from msprobe_builder.base.publish import written
from msprobe_builder.configuration.compare import ConfigurationComparison
from msprobe_builder.configuration.conclusion import conclusion
from msprobe_builder.configuration.levels import ERROR, WARNING
from msprobe_builder.export.wrapped import line
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.facts.wording import tell
from msprobe_builder.tables.write import library

_LARGEST_NUMBER = 1e15  # from there on a spreadsheet shows other digits; a seed must keep its own
_MOST_ROWS = 2000  # of one part on the page; the workbook has all


def summary_lines(comparison: ConfigurationComparison) -> list[str]:
    """Each part, and whether the runs may be compared."""
    lines = [
        f"{sheet.outcome:<9} {sheet.name}" + (f": {tell(sheet.first)}" if sheet.first else "")
        for sheet in comparison.sheets
    ]
    alone = tell(fact("configuration.in_one_pack"))
    lines += [f"{WARNING:<9} {name}: {alone}" for name in comparison.missing]
    return [*lines, line(fact("label.verdict"), conclusion(comparison))]


def write_workbook(comparison: ConfigurationComparison, path: Path) -> None:
    """The sheet ``summary`` and one for each part."""
    xlsxwriter: Any = library("xlsxwriter")
    with written(path) as stream:
        options = {
            "strings_to_formulas": False,
            "strings_to_urls": False,
            "nan_inf_to_errors": True,
        }
        book = xlsxwriter.Workbook(stream, options)
        head = book.add_format({"bold": True})
        fills = {
            ERROR: book.add_format({"bg_color": "#F4B6B6"}),
            WARNING: book.add_format({"bg_color": "#FFE8A3"}),
        }
        summary = book.add_worksheet("summary")
        rows: list[tuple[object, ...]] = [(one.name, one.outcome) for one in comparison.sheets]
        _fill(summary, ("filename", "pass_check"), rows, head, fills)
        for one in comparison.sheets:
            _fill(book.add_worksheet(one.name), one.columns, one.rows, head, fills)
        book.close()


def _fill(sheet: Any, columns: Any, rows: Any, head: Any, fills: Any) -> None:
    sheet.write_row(0, 0, columns, head)
    sheet.freeze_panes(1, 0)
    for number, row in enumerate(rows, 1):
        level = next((cell for cell in row if cell in (ERROR, WARNING)), None)
        level = ERROR if any(cell is False for cell in row) else level
        for place, cell in enumerate(row):
            if isinstance(cell, bool):
                sheet.write_boolean(number, place, cell, fills.get(level))
            elif isinstance(cell, int | float) and abs(cell) < _LARGEST_NUMBER:
                sheet.write_number(number, place, cell, fills.get(level))
            else:
                text = "" if cell is None else str(cell)[:32_767]
                sheet.write_string(number, place, text, fills.get(level))


_STYLE = """
:root { color-scheme: light dark }
body { font: 14px system-ui, "Noto Sans CJK SC", "Microsoft YaHei", sans-serif; margin: 2em }
table { border-collapse: collapse; display: block; overflow-x: auto }
td, th { border: 1px solid #8885; padding: 2px 6px; text-align: left; white-space: pre-wrap }
.error { background: #f4433633 } .warning { background: #ffc10733 }
"""


def page(comparison: ConfigurationComparison) -> str:
    """All parts in one file without scripts."""
    parts = []
    for sheet in comparison.sheets:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in sheet.columns)
        body = "".join(_row(row) for row in sheet.rows[:_MOST_ROWS])
        more = len(sheet.rows) - _MOST_ROWS
        note = _paragraph(fact("configuration.more_rows", count=more)) if more > 0 else ""
        table = f"<table><tr>{head}</tr>{body}</table>"
        if not sheet.rows:
            table = _paragraph(fact("configuration.no_difference"))
        parts.append(f"<h2>{sheet.name}: {sheet.outcome}</h2>{table}{note}")
    title = html.escape(tell(fact("configuration.title")))
    return (
        f'<!doctype html><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"<h1>{title}</h1><p><strong>{html.escape(tell(conclusion(comparison)))}</strong></p>"
        + "".join(parts)
    )


def _paragraph(said: Fact) -> str:
    return f"<p>{html.escape(tell(said))}</p>"


def _row(row: tuple[object, ...]) -> str:
    level = next((cell for cell in row if cell in (ERROR, WARNING)), "")
    level = ERROR if any(cell is False for cell in row) else level
    cells = "".join(f"<td>{html.escape('' if cell is None else str(cell))}</td>" for cell in row)
    return f'<tr class="{level}">{cells}</tr>'


def write_all(comparison: ConfigurationComparison, output: Path) -> None:
    """Write ``result.xlsx`` and ``result.html`` into the directory."""
    write_workbook(comparison, output / "result.xlsx")
    with written(output / "result.html") as stream:
        stream.write(page(comparison).encode("utf-8", "replace"))
