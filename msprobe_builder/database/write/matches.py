"""Making and ending matches: the tables of matched and unmatched nodes stay one to one."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from msprobe_builder.database.problems import DamagedError
from msprobe_builder.database.read.cells import integer

# Why a node is unmatched whose match was ended by hand; its candidate is the former partner.
BY_HAND = "by_hand"

_COLUMNS = "node_id, reason, candidate_id, detail"


@dataclass(frozen=True)
class StoredMatch:
    """A row of table ``match``; author, time and note only of matches made by hand."""

    npu: int
    bench: int
    source: int
    author: str | None = None
    matched_at: str | None = None
    note: str | None = None


def insert_match(connection: sqlite3.Connection, match: StoredMatch) -> None:
    """Match two nodes that have no partner; what was said of them is kept for later."""
    connection.execute(
        "INSERT INTO match (npu_node, bench_node, source, author, matched_at, note)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (match.npu, match.bench, match.source, match.author, match.matched_at, match.note),
    )
    by_hand = _by_hand(connection)
    for node in (match.npu, match.bench):
        connection.execute(
            f"INSERT OR REPLACE INTO unmatched_before ({_COLUMNS})"
            f" SELECT {_COLUMNS} FROM unmatched WHERE node_id = ? AND reason != ?",
            (node, by_hand),
        )
        connection.execute("DELETE FROM unmatched WHERE node_id = ?", (node,))


def delete_match(connection: sqlite3.Connection, npu: int, bench: int) -> int:
    """End the match of two nodes and return its source; DamagedError when there is none."""
    row = connection.execute(
        "DELETE FROM match WHERE npu_node = ? AND bench_node = ? RETURNING source", (npu, bench)
    ).fetchone()
    if row is None:
        raise DamagedError(f"nodes {npu} and {bench} are not matched, as a change by hand says")
    by_hand = _by_hand(connection)
    for node, former in ((npu, bench), (bench, npu)):
        moved = connection.execute(
            f"INSERT INTO unmatched ({_COLUMNS})"
            f" SELECT {_COLUMNS} FROM unmatched_before WHERE node_id = ?",
            (node,),
        ).rowcount
        if moved:
            connection.execute("DELETE FROM unmatched_before WHERE node_id = ?", (node,))
        else:
            connection.execute(
                f"INSERT INTO unmatched ({_COLUMNS}) VALUES (?, ?, ?, NULL)",
                (node, by_hand, former),
            )
    return integer(row[0])


def _by_hand(connection: sqlite3.Connection) -> int:
    """Number of the reason ``by_hand`` in this file, which only edited files have."""
    query = "SELECT reason FROM unmatched_reason WHERE name = ?"
    row = connection.execute(query, (BY_HAND,)).fetchone()
    if row is None:
        connection.execute(
            "INSERT INTO unmatched_reason SELECT ifnull(max(reason), 0) + 1, ?"
            " FROM unmatched_reason",
            (BY_HAND,),
        )
        row = connection.execute(query, (BY_HAND,)).fetchone()
    return integer(row[0])
