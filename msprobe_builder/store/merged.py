"""What a database keeps of a parallel merge: origins, recipes and where the data lie."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from msprobe_builder.graph.assembly import Assembly, from_text, to_text
from msprobe_builder.result import Graph
from msprobe_builder.texts import Texts

_DIRECTORIES = (
    "SELECT number, merge_directory.tensor_dir FROM merge_directory JOIN graph USING (graph_id)"
    " WHERE first_node = ?"
)
_STORED = "SELECT node_id, ordinal, assembly, unknown FROM merge_data WHERE node_id BETWEEN ? AND ?"


def write_merge(
    connection: sqlite3.Connection, graph: Graph, graph_id: int, base: int, texts: Texts
) -> None:
    """Store what is known of a merged graph; of any other there is nothing."""
    nodes, ordinals = graph.table.node.tolist(), graph.table.ordinal.tolist()
    connection.executemany(
        "INSERT INTO origin VALUES (?, ?)",
        [(base + node, rank) for node, ranks in enumerate(graph.origins) for rank in ranks],
    )
    connection.executemany(
        "INSERT INTO merge_recipe VALUES (?, ?, ?)",
        [
            (base + nodes[row], ordinals[row], texts.id(graph.recipes[row]) + 1)
            for row in sorted(graph.recipes)
        ],
    )
    if graph.assemblies is None:
        return
    number: dict[Path | None, int] = {}
    connection.executemany(
        "INSERT INTO merge_data VALUES (?, ?, ?, ?)", _data(graph, graph.assemblies, base, number)
    )
    connection.executemany(
        "INSERT INTO merge_directory VALUES (?, ?, ?)",
        [
            (graph_id, place, None if directory is None else _storable(directory))
            for directory, place in number.items()
        ],
    )


def _data(
    graph: Graph, assemblies: dict[int, Assembly], base: int, number: dict[Path | None, int]
) -> Iterator[tuple[int, int, str | None, str | None]]:
    table = graph.table
    for row in sorted({*assemblies, *graph.unknown}):
        assembly = assemblies.get(row)
        yield (
            base + int(table.node[row]),
            int(table.ordinal[row]),
            None if assembly is None else to_text(assembly, number),
            graph.unknown.get(row),
        )


def _storable(directory: Path) -> str:
    """A path as text that SQLite can hold."""
    return str(directory).encode("utf-8", "backslashreplace").decode("utf-8")


@dataclass(frozen=True)
class StoredMerge:
    """Assemblies and reasons by node and ordinal."""

    assemblies: dict[tuple[int, int], Assembly]
    unknown: dict[tuple[int, int], str]


def read_merge(
    connection: sqlite3.Connection, first_node: int, last_node: int, runs: list[tuple[int, int]]
) -> StoredMerge | None:
    """What was stored of the nodes of each run; None of a graph that was not merged.

    Files of older versions say nothing of merged data.
    """
    exists = "SELECT 1 FROM sqlite_master WHERE name = 'merge_data'"
    merged = "SELECT 1 FROM origin WHERE node_id BETWEEN ? AND ? LIMIT 1"
    if not connection.execute(exists).fetchone():
        return None
    if not connection.execute(merged, (first_node, last_node)).fetchone():
        return None
    directories = {
        number: None if path is None else Path(path)
        for number, path in connection.execute(_DIRECTORIES, (first_node,))
    }
    found = StoredMerge({}, {})
    for run in runs:
        for node, ordinal, assembly, reason in connection.execute(_STORED, run):
            if assembly is not None:
                try:
                    found.assemblies[node, ordinal] = from_text(assembly, directories)
                except ValueError as error:
                    reason = str(error)
            if reason is not None:
                found.unknown[node, ordinal] = reason
    return found
