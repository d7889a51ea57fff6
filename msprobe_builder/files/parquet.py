"""Parquet files from outside: how much they hold is bounded, whatever they say of themselves."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.limits import LARGEST_ROWS, MIB, MOST_ROWS
from msprobe_builder.files.regular import open_regular

_BATCH = 65_536  # rows


def read_parquet_rows(
    path: Path, names: Sequence[str], what: str, also: Sequence[str] = ()
) -> Iterator[tuple[Any, ...]]:
    """The columns ``names`` of a file, row by row, and those of ``also`` that it has.

    BuildError says that it is no ``what``.
    """
    try:
        import pyarrow.parquet  # type: ignore[import-untyped]
    except ImportError as error:
        raise BuildError(f"{path} needs pyarrow; install msprobe-graph[tables].") from error
    count = 0
    try:
        with os.fdopen(open_regular(path), "rb") as stream:
            file = pyarrow.parquet.ParquetFile(stream, pre_buffer=False)
            _require_bounds(path, file.metadata)
            names = [*names, *(one for one in also if one in file.schema_arrow.names)]
            for batch in file.iter_batches(_BATCH, columns=list(names)):
                count += batch.num_rows
                if count > MOST_ROWS:
                    raise BuildError(f"{path} holds more than {MOST_ROWS:,} rows.")
                table = [batch.column(name).to_pylist() for name in names]
                yield from zip(*table, strict=True)
    except BuildError:
        raise
    except FileNotFoundError as error:
        raise BuildError(f"{path} does not exist.") from error
    except OSError as error:
        why = error.strerror or "it is damaged"
        raise BuildError(f"{path} cannot be read: {why}.") from error
    except Exception as error:  # its library has its own for what is damaged
        raise BuildError(f"{path} is damaged: it is no {what}.") from error


def _require_bounds(path: Path, metadata: Any) -> None:
    """Of groups of rows; what is told of a damaged column would end the process."""
    if metadata.num_rows > MOST_ROWS:
        raise BuildError(f"{path} holds more than {MOST_ROWS:,} rows.")
    for number in range(metadata.num_row_groups):
        size = metadata.row_group(number).total_byte_size
        if size > LARGEST_ROWS:
            raise BuildError(
                f"{path} would become {size // MIB:,} MiB at once, more than the"
                f" {LARGEST_ROWS // MIB:,} it may."
            )
