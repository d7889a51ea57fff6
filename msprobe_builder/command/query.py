"""``msprobe-build query``: what a person asks of a file in SQL."""

from __future__ import annotations

import argparse
import csv
import io
import json
from collections.abc import Iterator
from itertools import chain, islice
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe_builder.base.printable import printable, visible
from msprobe_builder.command.frame import EXIT_INCOMPLETE, EXIT_OK, whole_number
from msprobe_builder.command.output import print_error, print_lines

if TYPE_CHECKING:
    from msprobe_builder.database.query import Answer

_TABLE_ROWS, _ROWS = 1_000, 100_000
SECONDS = 60
_Value = str | int | float | bytes | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of a question."""
    parser.description = (
        "Print what SQL finds in a .vis.db. It can only read. docs/query.md has the questions\n"
        "that people ask most; msprobe-build schema FILE says what can be asked for."
    )
    parser.epilog = "exit status:\n  3  there are more rows than were printed"
    parser.add_argument("database", metavar="FILE.vis.db", type=Path)
    parser.add_argument("sql", metavar="SQL", help="one statement that begins with SELECT or WITH")
    form = parser.add_mutually_exclusive_group()
    for name in ("table", "csv", "json"):
        form.add_argument(
            f"--{name}",
            action="store_const",
            const=name,
            dest="form",
            default="table",
            help=f"print {name}; a table, in which long texts are cut, when left out",
        )
    parser.add_argument(
        "--rows",
        metavar="N",
        type=whole_number(1, 100_000_000),
        help=f"print at most N rows (default {_TABLE_ROWS:,} of a table, else {_ROWS:,})",
    )
    parser.add_argument(
        "--seconds",
        metavar="N",
        type=whole_number(1, 86_400),
        default=SECONDS,
        help=f"give up after N seconds (default {SECONDS})",
    )


def run(options: argparse.Namespace) -> int:
    """Print the answer."""
    from msprobe_builder.database.query import asked

    form = {"table": _table, "csv": _csv, "json": _json}[options.form]
    most = options.rows or (_TABLE_ROWS if options.form == "table" else _ROWS)
    with asked(options.database, options.sql, options.seconds) as answer:
        is_printed = print_lines(form(answer, most))
        is_whole = not is_printed or next(answer.rows, None) is None
    if not is_whole:
        print_error(f"There are more than these {most:,} rows; --rows N prints more.")
    return EXIT_OK if is_whole else EXIT_INCOMPLETE


def _table(answer: Answer, most: int) -> Iterator[str]:
    from tabulate import tabulate

    rows = list(islice(answer.rows, most))
    are_numbers = [isinstance(value, int | float) for value in (rows or [answer.columns])[0]]
    yield from tabulate(
        [[_short(value) for value in row] for row in rows],
        [printable(name) for name in answer.columns],
        "simple",
        disable_numparse=True,  # a name may look like a number
        colalign=["right" if one else "left" for one in are_numbers] if rows else None,
    ).splitlines()


def _csv(answer: Answer, most: int) -> Iterator[str]:
    for row in chain([answer.columns], islice(answer.rows, most)):
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow([_text(value) for value in row])
        yield line.getvalue()


def _json(answer: Answer, most: int) -> Iterator[str]:
    """One row a line, so that a program may read them one by one."""
    before = "["
    for row in islice(answer.rows, most):
        yield before + json.dumps(dict(zip(answer.columns, map(_plain, row), strict=True)))
        before = ","
    yield "[]" if before == "[" else "]"


def _short(value: _Value) -> str:
    """A cell of a table."""
    return f"{value:.6g}" if isinstance(value, float) else printable(_text(value))


def _text(value: _Value) -> str:
    """A cell of CSV: numbers with all their digits, nothing for NULL."""
    if isinstance(value, bytes):
        return value.hex()
    return "" if value is None else visible(str(value))


def _plain(value: _Value) -> str | int | float | None:
    """A value of JSON, which has neither infinity nor bytes."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not isfinite(value):
        return _text(value)
    return value
