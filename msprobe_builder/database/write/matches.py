"""Making and ending matches: the tables of matched and unmatched nodes stay one to one."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import astuple, dataclass

from msprobe_builder.database.problems import DamagedError
from msprobe_builder.database.read.cells import (
    MAX_NODE,
    integer,
    number,
    optional_integer,
    optional_text,
)

# Why a node is unmatched whose match was ended by hand; its candidate is the former partner.
BY_HAND = "by_hand"
REJECTED = "rejected"  # the same of a match that evidence made, or of a group
GROUPED = "grouped"  # the call belongs to a group of calls

_NUMBER = "(SELECT reason FROM unmatched_reason WHERE name = ?)"
_COLUMNS = "node_id, reason, candidate_id, detail"
_MATCH = "npu_node, bench_node, source, author, matched_at, note, evidence, certainty"


@dataclass(frozen=True)
class StoredMatch:
    """A row of table ``match``; author, time and note only of matches made by hand, evidence and
    certainty only of those that were found automatically."""

    npu: int
    bench: int
    source: int
    author: str | None = None
    matched_at: str | None = None
    note: str | None = None
    evidence: int | None = None
    certainty: float | None = None


def insert_match(connection: sqlite3.Connection, match: StoredMatch) -> None:
    """Match two nodes that have no partner; what was said of them is kept for later."""
    connection.execute(
        f"INSERT INTO match ({_MATCH}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", astuple(match)
    )
    for node in (match.npu, match.bench):
        connection.execute(
            f"INSERT OR REPLACE INTO unmatched_before ({_COLUMNS})"
            f" SELECT {_COLUMNS} FROM unmatched WHERE node_id = ? AND (reason NOT IN"
            " (SELECT reason FROM unmatched_reason WHERE name IN (?, ?))"
            # What is said of a rejected group is not of a match that could come back.
            f" OR reason = {_NUMBER} AND node_id IN (SELECT node_id FROM group_member))",
            (node, BY_HAND, REJECTED, REJECTED),
        )
        connection.execute("DELETE FROM unmatched WHERE node_id = ?", (node,))


def stored_match(connection: sqlite3.Connection, npu: int, bench: int) -> StoredMatch | None:
    """The match of two nodes, None when they are not each other's partners."""
    query = f"SELECT {_MATCH} FROM match WHERE npu_node = ? AND bench_node = ?"
    row = connection.execute(query, (npu, bench)).fetchone()
    return None if row is None else match_of(row)


def match_of(row: Sequence[object]) -> StoredMatch:
    """The match in the columns of table ``match`` or in their like of table ``edit``."""
    npu, bench, source, author, at, note, evidence, certainty = row
    return StoredMatch(
        integer(npu, 0, MAX_NODE),
        integer(bench, 0, MAX_NODE),
        integer(source),
        optional_text(author),
        optional_text(at),
        optional_text(note),
        optional_integer(evidence),
        number(certainty),
    )


def judge_match(connection: sqlite3.Connection, match: StoredMatch) -> None:
    """Say anew who or what answers for the match of two nodes."""
    connection.execute(
        "UPDATE match SET source = ?, author = ?, matched_at = ?, note = ?"
        " WHERE npu_node = ? AND bench_node = ?",
        (match.source, match.author, match.matched_at, match.note, match.npu, match.bench),
    )


def delete_match(
    connection: sqlite3.Connection, npu: int, bench: int, reason: str = BY_HAND
) -> StoredMatch:
    """End the match of two nodes and return it; DamagedError when there is none.

    ``reason`` is why they are unmatched if nothing was said of them before.
    """
    row = connection.execute(
        f"DELETE FROM match WHERE npu_node = ? AND bench_node = ? RETURNING {_MATCH}", (npu, bench)
    ).fetchone()
    if row is None:
        raise DamagedError(f"nodes {npu} and {bench} are not matched, as a change by hand says")
    number_of_reason = _reason(connection, reason)
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
                (node, number_of_reason, former),
            )
    return match_of(row)


def reject_group(connection: sqlite3.Connection, group: int) -> None:
    """Say of the calls of a group that a person rejected it; each keeps its candidate."""
    _say_of_group(connection, group, REJECTED, GROUPED)


def restore_group(connection: sqlite3.Connection, group: int) -> None:
    """Say of the calls of a rejected group again that they are in it."""
    _say_of_group(connection, group, GROUPED, REJECTED)


def _say_of_group(connection: sqlite3.Connection, group: int, reason: str, before: str) -> None:
    connection.execute(
        "UPDATE unmatched SET reason = ? WHERE reason = ? AND node_id IN"
        " (SELECT node_id FROM group_member WHERE call_group_id = ?)",
        (_reason(connection, reason), _reason(connection, before), group),
    )


def _reason(connection: sqlite3.Connection, name: str) -> int:
    """Number of a reason in this file that only edited files have."""
    query = "SELECT reason FROM unmatched_reason WHERE name = ?"
    row = connection.execute(query, (name,)).fetchone()
    if row is None:
        connection.execute(
            "INSERT INTO unmatched_reason SELECT ifnull(max(reason), 0) + 1, ?"
            " FROM unmatched_reason",
            (name,),
        )
        row = connection.execute(query, (name,)).fetchone()
    return integer(row[0])
