"""The table of some nodes, of one or many steps and ranks, as one file."""

from __future__ import annotations

import sqlite3
from collections.abc import Container, Mapping
from dataclasses import replace
from pathlib import Path

from msprobe_builder.base.errors import BuildError
from msprobe_builder.database.read.executed import Place, read_places
from msprobe_builder.database.read.meta import read_task
from msprobe_builder.dump.task import Task
from msprobe_builder.tables.columns import columns_of
from msprobe_builder.tables.read import read_rows
from msprobe_builder.tables.write import table_file

Key = tuple[int, int]  # step and rank


def places_of(connection: sqlite3.Connection) -> dict[Key, Place]:
    """Every step and rank of a file."""
    return {(place.step, place.rank): place for place in read_places(connection)}


def write_selection(
    connection: sqlite3.Connection, path: Path, wanted: Mapping[Key, Container[int] | None]
) -> int:
    """Write the calls of ``wanted`` nodes, None for all of a step and rank; returns the rows.

    With several steps or ranks these stand in two columns before the others. Lines are marked
    and our own columns are there. BuildError when the file holds structure alone.
    """
    task = read_task(connection)
    if task is Task.STRUCTURE:
        raise BuildError("This file holds structure without values; there is no table of it.")
    columns = columns_of(task, own=True)
    is_placed = len(wanted) > 1
    shown = replace(columns, names=("step", "rank", *columns.names)) if is_placed else columns
    count = 0
    with table_file(path, shown) as write:
        for key, place in places_of(connection).items():
            if key not in wanted:
                continue
            rows = read_rows(connection, place, task, columns, marked=True, only=wanted[key])
            for row in rows:
                if is_placed:
                    row.cells[:0] = key
                write(row)
                count += 1
    return count
