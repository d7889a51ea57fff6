"""Whether a .vis.db is whole: the file, its layout, its rows, and how they hang together."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from msprobe_builder.base.errors import BuildError
from msprobe_builder.database.findings import findings
from msprobe_builder.database.open import found, opened, require_file, unchecked
from msprobe_builder.facts.fact import Fact


def verify(path: Path) -> list[Fact]:
    """What is wrong with a file; nothing when it is whole.

    UsageError when there is no file; BuildError when it cannot be looked into at all.
    """
    require_file(path)
    for suffix in ("-journal", "-wal"):
        beside = path.with_name(path.name + suffix)
        try:
            left = beside.stat().st_size
        except OSError:
            continue
        if left:
            raise BuildError(
                f"{beside.name} lies beside {path}: a program writes to it, or was killed while it"
                " did. Look again when it is gone; opening the file in TensorBoard takes it back."
            )
    with opened(path, as_it_is=True) as connection:
        return list(findings(connection))


def saved_matches(path: Path) -> list[dict[str, object]]:
    """Pairs matched by hand or by a file, as far as a damaged file can still tell them."""
    distinct: dict[tuple[object, ...], dict[str, object]] = {}
    with unchecked(found(path)) as connection:
        connection.execute("PRAGMA query_only = ON")
        for row in _matches(connection):
            distinct.setdefault(tuple(row.values()), row)
    return list(distinct.values())


def _matches(connection: sqlite3.Connection) -> Iterator[dict[str, object]]:
    """One match after the other: what cannot be read of one is no reason to lose the next."""
    name = (
        "(SELECT CASE WHEN direction = 0 THEN value"
        " WHEN kind = 1 THEN value || '.' || call || iif(direction = 1, '.forward', '.backward')"
        " ELSE value || iif(direction = 1, '.forward.', '.backward.') || call END"
        " FROM node JOIN text ON text_id = stem_id WHERE node_id = {})"
    )
    query = (
        f"SELECT {name.format('npu_node')}, {name.format('bench_node')}, step, rank FROM match"
        " JOIN node ON node_id = npu_node JOIN graph USING (graph_id)"
        " WHERE npu_node = ? AND source IN (3, 4)"
    )
    try:
        nodes = [node for (node,) in connection.execute("SELECT npu_node FROM match")]
    except sqlite3.Error:
        nodes = []
    for node in nodes:
        try:
            rows = connection.execute(query, (node,)).fetchall()
        except sqlite3.Error:
            continue
        for npu, bench, step, rank in rows:
            if isinstance(npu, str) and isinstance(bench, str):
                yield {"npu": npu, "bench": bench, "step": step, "rank": rank}
