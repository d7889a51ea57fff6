"""Recording what is done by hand, and what undo and redo turn back."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from typing import NamedTuple

from msprobe_builder.database.problems import DamagedError
from msprobe_builder.database.read.cells import integer, optional_text, text
from msprobe_builder.database.write.matches import StoredMatch, match_of

MATCH, UNMATCH = "match", "unmatch"
# Of a match that was found automatically: it becomes one by hand, or ends.
CONFIRM, REJECT = "confirm", "reject"

# Values of edit.undone: what was undone can be done again until something else is done.
UNDONE, UNDONE_FOR_GOOD = 1, 2


class StoredEdit(NamedTuple):
    """One row of table ``edit``: ``action`` and the match that it made or ended."""

    edit_id: int
    action: str
    match: StoredMatch


def begin_batch(connection: sqlite3.Connection) -> int:
    """Number of a new batch; what was undone before cannot be done again."""
    [[batch]] = connection.execute("SELECT ifnull(max(edit_id), 0) + 1 FROM edit")
    connection.execute("UPDATE edit SET undone = ? WHERE undone = ?", (UNDONE_FOR_GOOD, UNDONE))
    return integer(batch)


def insert_edit(
    connection: sqlite3.Connection, batch: int, action: str, match: StoredMatch
) -> None:
    """Record that a match was made or ended."""
    connection.execute(
        "INSERT INTO edit (batch, edited_at, author, action, npu_node, bench_node, source, reason,"
        " evidence, certainty) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            batch,
            match.matched_at,
            match.author,
            action,
            match.npu,
            match.bench,
            match.source,
            match.note,
            match.evidence,
            match.certainty,
        ),
    )


def mark_undone(connection: sqlite3.Connection, batch: int, *, undone: bool) -> None:
    """Say whether a batch is undone."""
    connection.execute(
        "UPDATE edit SET undone = ? WHERE batch = ?", (UNDONE if undone else 0, batch)
    )


def read_batch(connection: sqlite3.Connection, batch: int) -> list[StoredEdit]:
    """What one request changed, in order."""
    rows = connection.execute(
        "SELECT edit_id, action, npu_node, bench_node, source, author, edited_at, reason,"
        " evidence, certainty FROM edit WHERE batch = ? ORDER BY edit_id",
        (batch,),
    )
    return [
        StoredEdit(integer(edit_id), _action(action), match_of(match))
        for edit_id, action, *match in rows
    ]


def match_before(connection: sqlite3.Connection, edit: StoredEdit) -> StoredMatch:
    """A match that an edit ended: by hand with its author, by the build without one."""
    npu, bench, source = edit.match.npu, edit.match.bench, edit.match.source
    row = connection.execute(
        "SELECT author, edited_at, reason FROM edit WHERE npu_node = ? AND bench_node = ?"
        " AND action IN (?, ?) AND edit_id < ? AND NOT undone AND source = ?"
        " ORDER BY edit_id DESC LIMIT 1",
        (npu, bench, MATCH, CONFIRM, edit.edit_id, source),
    ).fetchone()
    author, at, note = map(optional_text, row or (None, None, None))
    return replace(edit.match, author=author, matched_at=at, note=note)


def _action(value: object) -> str:
    if text(value) not in (MATCH, UNMATCH, CONFIRM, REJECT):
        raise DamagedError(f"{value!r} is no action of table edit")
    return text(value)
