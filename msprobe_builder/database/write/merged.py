"""What a database keeps of a parallel merge: origins, recipes and where the data lie."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from msprobe_builder.base.codes import Disagreement
from msprobe_builder.base.texts import Texts
from msprobe_builder.facts.fact import Fact, decode, encode, fact
from msprobe_builder.graph.assembly import Assembly, from_text, to_text
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.provenance import Apart, Provenance, told_of_apart
from msprobe_builder.metrics.result import Graph

_DIRECTORIES = (
    "SELECT number, merge_directory.tensor_dir FROM merge_directory JOIN graph USING (graph_id)"
    " WHERE first_node = ?"
)
_APART = (
    "SELECT node_id, ordinal, rank, kind, shown_rank, suspect, is_origin, max, min, mean, norm,"
    " difference, value FROM disagreement LEFT JOIN text ON text_id = note_id"
    " WHERE node_id BETWEEN ? AND ? AND kind != ? ORDER BY node_id, ordinal, kind, rank"
)
_STORED = "SELECT node_id, ordinal, assembly, unknown FROM merge_data WHERE node_id BETWEEN ? AND ?"


def write_merge(
    connection: sqlite3.Connection, graph: Graph, graph_id: int, base: int, texts: Texts
) -> None:
    """Store what is known of a merged graph; of any other there is nothing."""
    if graph.provenance is None:
        return
    recipes = dict(graph.provenance.recipes)
    for row, several in graph.provenance.apart.items():
        told = fact("recipe.apart", apart=list(map(told_of_apart, several)))
        recipes[row] = (*recipes.get(row, ()), told)
    nodes, ordinals = graph.table.node.tolist(), graph.table.ordinal.tolist()
    connection.executemany(
        "INSERT INTO origin VALUES (?, ?)",
        [
            (base + node, rank)
            for node, ranks in enumerate(graph.provenance.origins)
            for rank in ranks
        ],
    )
    connection.executemany(
        "INSERT INTO merge_recipe VALUES (?, ?, ?)",
        [
            (
                base + nodes[row],
                ordinals[row],
                texts.id(encode(fact("recipe", facts=recipes[row]))) + 1,
            )
            for row in sorted(recipes)
        ],
    )
    connection.executemany(
        "INSERT INTO disagreement VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        _disagreements(graph.table, graph.provenance.apart, base, texts),
    )
    number: dict[Path | None, int] = {}
    connection.executemany(
        "INSERT INTO merge_data VALUES (?, ?, ?, ?)",
        _data(graph.table, graph.provenance, base, number),
    )
    connection.executemany(
        "INSERT INTO merge_directory VALUES (?, ?, ?)",
        [
            (graph_id, place, None if directory is None else _storable(directory))
            for directory, place in number.items()
        ],
    )


def _disagreements(
    table: ParameterTable, apart: dict[int, tuple[Apart, ...]], base: int, texts: Texts
) -> Iterator[tuple[object, ...]]:
    for row, several in sorted(apart.items()):
        once = {(one.rank, int(one.kind)): one for one in reversed(several)}
        for (rank, kind), one in once.items():
            is_nan = [math.isnan(value) for value in one.statistics]
            yield (
                base + int(table.node[row]),
                int(table.ordinal[row]),
                *(rank, kind, one.shown_rank, one.suspect, int(one.is_origin)),
                *one.statistics,  # NaN is stored as NULL
                sum(bit << place for place, bit in enumerate(is_nan)),
                one.difference,
                texts.id(encode(one.note)) + 1 if one.note else None,
            )


def _data(
    table: ParameterTable, provenance: Provenance, base: int, number: dict[Path | None, int]
) -> Iterator[tuple[int, int, str | None, str | None]]:
    for row in sorted({*provenance.assemblies, *provenance.unknown}):
        assembly = provenance.assemblies.get(row)
        yield (
            base + int(table.node[row]),
            int(table.ordinal[row]),
            None if assembly is None else to_text(assembly, number),
            None if row not in provenance.unknown else encode(provenance.unknown[row]),
        )


def _storable(directory: Path) -> str:
    """A path as text that SQLite can hold."""
    return str(directory).encode("utf-8", "backslashreplace").decode("utf-8")


@dataclass(frozen=True)
class StoredMerge:
    """Assemblies, reasons and ranks that are apart, by node and ordinal."""

    assemblies: dict[tuple[int, int], Assembly]
    unknown: dict[tuple[int, int], Fact]
    apart: dict[tuple[int, int], tuple[Apart, ...]]


def read_merge(
    connection: sqlite3.Connection, first_node: int, last_node: int, runs: list[tuple[int, int]]
) -> StoredMerge | None:
    """What was stored of the nodes of each run; None of a graph that was not merged."""
    merged = "SELECT 1 FROM origin WHERE node_id BETWEEN ? AND ? LIMIT 1"
    if not connection.execute(merged, (first_node, last_node)).fetchone():
        return None
    directories = {
        number: None if path is None else Path(path)
        for number, path in connection.execute(_DIRECTORIES, (first_node,))
    }
    found = StoredMerge({}, {}, {})
    for run in runs:
        for node, ordinal, assembly, reason in connection.execute(_STORED, run):
            if assembly is not None:
                try:
                    found.assemblies[node, ordinal] = from_text(assembly, directories)
                except ValueError as error:
                    reason = str(error)
            if reason:
                [found.unknown[node, ordinal]] = decode(reason)
        for node, ordinal, one in _read_disagreements(connection, run):
            found.apart[node, ordinal] = (*found.apart.get((node, ordinal), ()), one)
    return found


def _read_disagreements(
    connection: sqlite3.Connection, run: tuple[int, int]
) -> Iterator[tuple[int, int, Apart]]:
    """What ranks and stages differ in; whose part is off is for a comparison to tell anew."""
    for (
        node,
        ordinal,
        rank,
        kind,
        shown,
        suspect,
        is_origin,
        *statistics,
        difference,
        note,
    ) in connection.execute(_APART, (*run, int(Disagreement.SHARE))):
        own = [math.nan if value is None else float(value) for value in statistics]
        yield (
            node,
            ordinal,
            Apart(
                rank,
                Disagreement(kind),
                shown,
                (own[0], own[1], own[2], own[3]),
                difference,
                suspect,
                bool(is_origin),
                *(decode(note or "")[:1] or (None,)),
            ),
        )
