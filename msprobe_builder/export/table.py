"""``msprobe-build export``: the nodes or tensors of a database as a table for pandas and people."""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

from msprobe_builder.errors import BuildError, UsageError
from msprobe_builder.export.publish import published
from msprobe_builder.export.source import opened
from msprobe_builder.export.table_rows import (
    GRADES,
    SIDES,
    Selection,
    Table,
    Value,
    columns_of,
    read_rows,
)

WriteRow = Callable[[tuple[Value, ...]], object]
_DELIMITERS = {".csv": ",", ".tsv": "\t"}


def main(arguments: Sequence[str]) -> int:
    """Run ``msprobe-build export``; returns the exit status, as the build does."""
    options = _parser().parse_args(arguments)
    selection = Selection(
        sides=tuple(options.side),
        steps=tuple(options.step),
        ranks=tuple(options.rank),
        grades=tuple(options.grade),
        name=options.name,
    )
    try:
        count = export_table(options.database, options.output, options.table, selection)
    except UsageError as error:
        print(f"msprobe-build: {error}", file=sys.stderr)
        return 2
    except BuildError as error:
        print(f"msprobe-build: {error}", file=sys.stderr)
        return 1
    if not options.quiet:
        print(f"{options.output}: {count} rows")
    return 0


def export_table(
    database: Path, output: Path, table: Table = "nodes", selection: Selection | None = None
) -> int:
    """Write a table of ``database`` to ``output``, .csv or .tsv, also .gz; returns its rows.

    Numbers have every digit; NaN reads ``NaN``, infinity ``inf``, what is missing is empty.
    """
    delimiter = _delimiter(output)
    with (
        opened(database) as connection,
        closing(read_rows(connection, table, selection or Selection())) as rows,
    ):
        # The first row is asked for before a file is begun: mistakes show there.
        first = next(rows, None)
        with published(output) as stream, _text(stream, output) as text:
            writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
            writer.writerow(columns_of(table))
            return _write(writer.writerow, first, rows)


def _write(
    write: WriteRow, first: tuple[Value, ...] | None, rows: Iterable[tuple[Value, ...]]
) -> int:
    if first is None:
        return 0
    write(first)
    count = 1
    for row in rows:
        write(row)
        count += 1
    return count


def _delimiter(output: Path) -> str:
    suffix = Path(output.stem if output.suffix == ".gz" else output.name).suffix.lower()
    if suffix not in _DELIMITERS:
        raise UsageError(
            f"{output} has none of the suffixes .csv, .tsv, .csv.gz, .tsv.gz;"
            " give the name of the table with -o."
        )
    return _DELIMITERS[suffix]


@contextmanager
def _text(stream: BinaryIO, output: Path) -> Iterator[TextIO]:
    """Text into a file; one that is compressed does not depend on the time of day."""
    if output.suffix == ".gz":
        with gzip.GzipFile(output.stem, "wb", fileobj=stream, mtime=0) as packed:
            yield from _encoded(packed)
    else:
        yield from _encoded(stream)


def _encoded(stream: BinaryIO | gzip.GzipFile) -> Iterator[TextIO]:
    text = io.TextIOWrapper(stream, encoding="utf-8", errors="replace", newline="")
    yield text
    text.detach()


def _parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="msprobe-build export",
        description="Write the nodes of a .vis.db, or its tensors beside those they were compared"
        " with, as a table: one line each, by step, rank and order of execution.",
        allow_abbrev=False,
    )
    result.add_argument("database", metavar="FILE.vis.db", type=Path)
    result.add_argument(
        *("-o", "--output"),
        metavar="FILE.csv",
        type=Path,
        required=True,
        help="the table: .csv or .tsv, compressed with .gz behind it",
    )
    result.add_argument(
        "--table",
        choices=("nodes", "tensors"),
        default="nodes",
        help="one line per node (default), or per pair of tensors",
    )
    result.add_argument("--side", choices=SIDES, action="append", default=[], help="only this side")
    for what in ("step", "rank"):
        result.add_argument(
            f"--{what}",
            metavar="N",
            type=_number,
            action="append",
            default=[],
            help=f"only this {what}; may be given several times",
        )
    result.add_argument(
        "--grade",
        choices=GRADES,
        action="append",
        default=[],
        help="only nodes of this grade; may be given several times",
    )
    result.add_argument(
        "--name", metavar="TEXT", default="", help="only nodes whose name contains this"
    )
    result.add_argument("--quiet", action="store_true", help="print nothing but errors")
    return result


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)
