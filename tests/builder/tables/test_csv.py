"""Tables as CSV: as the library would write them, without loading more than that takes."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from pathlib import Path

from msprobe_builder.dump.task import Task
from msprobe_builder.tables import write
from msprobe_builder.tables.columns import columns_of
from msprobe_builder.tables.rows import Cell, Row
from tests.conftest import BuildDatabase


def test_lines_of_csv_are_those_of_the_library(tmp_path: Path) -> None:
    odd: list[Cell] = [
        'a "word"',
        "two, three",
        "line\nline",
        "back\rback",
        " blank",
        "",
        "é\ud800",
        "-inf",
        "x",
    ]
    numbers: list[float] = [0.0, -0.0, 1e-300, 0.1, 1e22, 12, -3]
    columns = columns_of(Task.MD5)
    rows: list[list[Cell]] = [
        [text, number, *odd, number][: len(columns.names)]
        for text in odd
        for number in (*numbers, *(-number for number in numbers))
    ]
    path = tmp_path / "odd.csv"
    with write.table_file(path, columns) as put:
        for cells in rows:
            put(Row(list(cells), 0, is_bad=False))
    expected = io.StringIO(newline="")
    csv.writer(expected, lineterminator="\n").writerows([columns.names, *rows])
    assert path.read_bytes() == expected.getvalue().encode(errors="replace")


def test_a_table_of_a_file_needs_nothing_that_reads_dumps(
    dumps: Path, build_database: BuildDatabase, tmp_path: Path
) -> None:
    folder = dumps / "llama_statistics_L0"
    database = build_database(folder / "step0" / "rank", folder / "step1" / "rank")
    program = (
        "import sys; from msprobe_builder.command.main import main;"
        f"main(['table', {str(database)!r}, '-o', {str(tmp_path)!r}, '--format', 'csv']);"
        "print(*sys.modules)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(answer.stdout.splitlines()[-1].split())
    assert "msprobe_builder.tables.export" in loaded
    assert not {"numpy", "msprobe_builder.dump.read", "xlsxwriter", "pandas"} & loaded
