"""Table ``operator_check`` of a .vis.db: what checks of a rank's calls have found."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Protocol

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.database.connection import store
from msprobe_builder.database.open import found, opened, writing
from msprobe_builder.database.read.graphs import find_graph
from msprobe_builder.facts.fact import Fact, encode
from msprobe_builder.files.problems import FileError


class Row(Protocol):
    """What is stored of a checked call."""

    @property
    def name(self) -> str: ...
    @property
    def direction(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def compared(self) -> str: ...
    @property
    def times(self) -> float: ...
    @property
    def reason(self) -> Fact | None: ...


def require_graph(path: Path, step: int, rank: int, side: int = 0) -> None:
    """UsageError or BuildError for a file beside whose nodes nothing could be stored."""
    with opened(path) as connection:
        if find_graph(connection, step, rank, side) is None:
            raise _no_graph(path, step, rank)


def store_checks(path: Path, rows: Sequence[Row], step: int, rank: int, side: int = 0) -> int:
    """Write rows beside the nodes of one step, rank and side; returns how many found their node.

    All of them or nothing is written. UsageError when the file has no such graph, BuildError
    when it cannot be written.
    """
    try:
        with writing(found(path, may_write=True)) as connection:
            graph = find_graph(connection, step, rank, side)
            if graph is None:
                raise _no_graph(path, step, rank)
            nodes = dict(
                connection.execute(
                    "SELECT name, node_id FROM node_name JOIN node USING (node_id)"
                    " WHERE graph_id = ?",
                    (graph.graph_id,),
                )
            )
            known = [
                (
                    nodes[f"{row.name}.{row.direction}"],
                    row.status,
                    row.compared,
                    row.times if isfinite(row.times) else None,
                    "" if row.reason is None else encode(row.reason),
                )
                for row in rows
                if f"{row.name}.{row.direction}" in nodes
            ]
            connection.executemany(
                "INSERT OR REPLACE INTO operator_check VALUES (?,?,?,?,?)", known
            )
            store(connection)
            return len(known)
    except FileError as error:
        raise BuildError(f"Cannot write operator_check: {error}") from error


def _no_graph(path: Path, step: int, rank: int) -> UsageError:
    return UsageError(
        f"{path} has no step {step} rank {rank} on that side; give --step and --rank as it has "
        "them."
    )
