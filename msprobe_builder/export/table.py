"""The nodes or tensors of a database as a table for pandas and people."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO, get_args

from msprobe_builder.base.errors import UsageError
from msprobe_builder.base.publish import written
from msprobe_builder.base.spreadsheet import harmless
from msprobe_builder.database.read.tables import (
    Selection,
    Table,
    columns_of,
    read_rows,
)
from msprobe_builder.database.whole import opened_whole

_DELIMITERS = {".csv": ",", ".tsv": "\t"}


def export_table(
    database: Path, output: Path, table: Table = "nodes", selection: Selection | None = None
) -> int:
    """Write a table of ``database`` to ``output``, .csv or .tsv, also .gz; returns its rows.

    Numbers have every digit; NaN reads ``NaN``, infinity ``inf``, what is missing is empty.
    """
    database, output = Path(database), Path(output)
    if table not in get_args(Table):
        raise UsageError(
            f"There is no table {table!r}; choose one of {', '.join(get_args(Table))}."
        )
    delimiter = _delimiter(output)
    count = 0
    with (
        written(output) as stream,  # it gets its name when the file has been read whole
        opened_whole(database) as connection,
        closing(read_rows(connection, table, selection or Selection())) as rows,
        _text(stream, output) as text,
    ):
        write = csv.writer(text, delimiter=delimiter, lineterminator="\n").writerow
        write(columns_of(table))
        for row in rows:
            write(tuple(map(harmless, row)))
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
