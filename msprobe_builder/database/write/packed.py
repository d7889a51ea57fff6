"""The last of a build: a file without gaps, and its large graphs as columns for whoever shows them.

Rows that are appended to a table by its key leave an eighth of each page empty; copying the file
in one go fills them, in a fiftieth of the time of the build.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from zlib import crc32

from msprobe_builder.base.limits import MIB
from msprobe_builder.database.connection import connect_own
from msprobe_builder.database.read.graphs import read_graphs
from msprobe_builder.database.read.node_columns import PACKED_AT, packed, read_node_columns

LARGEST_COPIED = 2048 * MIB  # bytes; more than that should never be on the disk twice
LARGE_GRAPH = 50_000  # nodes; smaller ones are read from the tables in a moment
# Files that are made of this one's rows anew count their changes from 1: they never come this far.
_FAR = 2**31


def pack(path: Path) -> None:
    """Close the gaps of a finished file and add its packed columns; nobody else has it open."""
    if path.stat().st_size <= LARGEST_COPIED:
        # Also a temporary file of this build by its name, should it be killed now.
        copy = path.with_name(f".copy{path.name}")
        copy.unlink(missing_ok=True)
        try:
            with closing(connect_own(path)) as connection:
                connection.execute("VACUUM INTO ?", (str(copy),))
            copy.replace(path)
        except sqlite3.OperationalError:
            pass  # no room for both: the file is whole, with its gaps
        finally:
            for left in (copy, copy.with_name(f"{copy.name}-journal")):
                left.unlink(missing_ok=True)
    write_packed_columns(path)


def write_packed_columns(path: Path) -> None:
    """Keep what large graphs are shown from, and mark the file as it is then."""
    with closing(connect_own(path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")  # whoever gives it its name syncs it
        graphs = [graph for graph in read_graphs(connection) if graph.count >= LARGE_GRAPH]
        if not graphs:
            return
        connection.execute("BEGIN")
        mark = 0
        for graph in graphs:
            for name, kind, values in packed(read_node_columns(connection, graph)):
                mark = crc32(values, mark)
                row = (graph.graph_id, name, kind, values)
                connection.execute("INSERT INTO packed_column VALUES (?, ?, ?, ?)", row)
        mark |= _FAR
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (PACKED_AT, str(mark)))
        connection.execute("COMMIT")
    _count_from(path, mark)


def _count_from(path: Path, mark: int) -> None:
    """Let SQLite go on counting changes of the file from ``mark``.

    The number stands in the header twice (https://sqlite.org/fileformat2.html#file_change_counter).
    """
    with path.open("r+b") as file:
        for place in (24, 92):
            file.seek(place)
            file.write(mark.to_bytes(4, "big"))
