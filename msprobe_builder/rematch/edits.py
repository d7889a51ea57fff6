"""Changes by hand: each is recorded, so that it can be undone and its history told."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

from msprobe_builder.base.codes import Source
from msprobe_builder.rematch.table import (
    BY_HAND,
    REJECTED,
    StoredMatch,
    delete_match,
    insert_match,
    judge_match,
    partner_of_bench,
    partner_of_npu,
)

MATCH, UNMATCH = "match", "unmatch"
# Of a match that was found automatically: it becomes one by hand, or ends.
CONFIRM, REJECT = "confirm", "reject"

UNDOABLE = "SELECT max(batch) FROM edit WHERE NOT undone"
# Values of edit.undone: what was undone can be done again until something else is done.
UNDONE, UNDONE_FOR_GOOD = 1, 2
REDOABLE = (
    f"SELECT min(batch) FROM edit WHERE undone = {UNDONE}"
    " AND batch > (SELECT ifnull(max(batch), 0) FROM edit WHERE NOT undone)"
)


@dataclass(frozen=True)
class Change:
    """A match that was made, ended or confirmed; ``cause`` is one of asked, descendant, twin, file,
    replaced, undo, redo."""

    action: str
    npu: int
    bench: int
    cause: str


@dataclass
class Edits:
    """What one request changes; it is undone as a whole."""

    connection: sqlite3.Connection
    author: str | None = None
    reason: str | None = None
    source: Source = Source.MANUAL
    changes: list[Change] = field(default_factory=list)
    at: str = field(
        default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds")
    )
    _batch: int = 0


def make(edits: Edits, npu: int, bench: int, cause: str) -> None:
    """Match two nodes, ending the matches that either has with another one."""
    connection = edits.connection
    bench_before, npu_before = partner_of_npu(connection, npu), partner_of_bench(connection, bench)
    if bench_before == bench:
        return
    if bench_before is not None:
        end(edits, npu, bench_before, "replaced")
    if npu_before is not None:
        end(edits, npu_before, bench, "replaced")
    source = int(edits.source)
    match = StoredMatch(npu, bench, source, edits.author, edits.at, edits.reason)
    insert_match(connection, match)
    _record(edits, Change(MATCH, npu, bench, cause), match)


def end(edits: Edits, npu: int, bench: int, cause: str, action: str = UNMATCH) -> None:
    """End the match of two nodes; ``action`` is UNMATCH, or REJECT of an automatic match."""
    match = delete_match(edits.connection, npu, bench, REJECTED if action == REJECT else BY_HAND)
    _record(edits, Change(action, npu, bench, cause), match)


def confirm(edits: Edits, match: StoredMatch, cause: str) -> None:
    """Make an automatic match one by hand; what showed it is kept."""
    by_hand = replace(
        match,
        source=int(edits.source),
        author=edits.author,
        matched_at=edits.at,
        note=edits.reason,
    )
    judge_match(edits.connection, by_hand)
    _record(edits, Change(CONFIRM, match.npu, match.bench, cause), by_hand)


def undo(edits: Edits) -> bool:
    """Take back what was done last; whether there was anything."""
    [[batch]] = edits.connection.execute(UNDOABLE)
    rows = _rows_of(edits.connection, batch)
    for edit_id, action, match in reversed(rows):
        if action == MATCH:
            delete_match(edits.connection, match.npu, match.bench)
            edits.changes.append(Change(UNMATCH, match.npu, match.bench, "undo"))
        elif action == CONFIRM:
            judge_match(edits.connection, _found(match))
            edits.changes.append(Change(MATCH, match.npu, match.bench, "undo"))
        else:
            insert_match(edits.connection, _as_before(edits.connection, edit_id, match))
            edits.changes.append(Change(MATCH, match.npu, match.bench, "undo"))
    edits.connection.execute("UPDATE edit SET undone = 1 WHERE batch = ?", (batch,))
    return bool(rows)


def redo(edits: Edits) -> bool:
    """Do again what was undone last; whether there was anything that still fits the matches."""
    [[batch]] = edits.connection.execute(REDOABLE)
    rows = _rows_of(edits.connection, batch)
    if not _fits(edits.connection, rows):
        return False
    for _, action, match in rows:
        if action == MATCH:
            insert_match(edits.connection, match)
        elif action == CONFIRM:
            judge_match(edits.connection, match)
        else:
            reason = REJECTED if action == REJECT else BY_HAND
            delete_match(edits.connection, match.npu, match.bench, reason)
        edits.changes.append(Change(action, match.npu, match.bench, "redo"))
    edits.connection.execute("UPDATE edit SET undone = 0 WHERE batch = ?", (batch,))
    return bool(rows)


def _fits(connection: sqlite3.Connection, rows: list[tuple[int, str, StoredMatch]]) -> bool:
    """Whether the matches are still those that the first rows of a batch were made on."""
    partners: dict[tuple[int, int], int | None] = {}
    for _, action, match in rows:
        ends = ((0, match.npu), (1, match.bench))
        for side, node in ends:
            if (side, node) not in partners:
                find = partner_of_bench if side else partner_of_npu
                partners[side, node] = find(connection, node)
        now = partners[ends[0]], partners[ends[1]]
        if now != ((None, None) if action == MATCH else (match.bench, match.npu)):
            return False
        after = (match.bench, match.npu) if action in (MATCH, CONFIRM) else (None, None)
        partners[ends[0]], partners[ends[1]] = after
    return True


def _found(match: StoredMatch) -> StoredMatch:
    """A confirmed match as it was before."""
    return replace(match, source=int(Source.AUTOMATIC), author=None, matched_at=None, note=None)


def _record(edits: Edits, change: Change, match: StoredMatch) -> None:
    edits.changes.append(change)
    connection = edits.connection
    if not edits._batch:
        [[edits._batch]] = connection.execute("SELECT ifnull(max(edit_id), 0) + 1 FROM edit")
        connection.execute("UPDATE edit SET undone = ? WHERE undone = ?", (UNDONE_FOR_GOOD, UNDONE))
    connection.execute(
        "INSERT INTO edit (batch, edited_at, author, action, npu_node, bench_node, source, reason,"
        " evidence, certainty) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            edits._batch,
            edits.at,
            edits.author,
            change.action,
            change.npu,
            change.bench,
            match.source,
            edits.reason,
            match.evidence,
            match.certainty,
        ),
    )


def _rows_of(
    connection: sqlite3.Connection, batch: int | None
) -> list[tuple[int, str, StoredMatch]]:
    rows = connection.execute(
        "SELECT edit_id, action, npu_node, bench_node, source, author, edited_at, reason,"
        " evidence, certainty FROM edit WHERE batch = ? ORDER BY edit_id",
        (batch,),
    )
    return [(edit_id, action, StoredMatch(*match)) for edit_id, action, *match in rows]


def _as_before(connection: sqlite3.Connection, edit_id: int, match: StoredMatch) -> StoredMatch:
    """A match that an edit ended: by hand with its author, by the build without one."""
    row = connection.execute(
        "SELECT author, edited_at, reason FROM edit WHERE npu_node = ? AND bench_node = ?"
        " AND action IN (?, ?) AND edit_id < ? AND NOT undone AND source = ?"
        " ORDER BY edit_id DESC LIMIT 1",
        (match.npu, match.bench, MATCH, CONFIRM, edit_id, match.source),
    ).fetchone()
    author, at, note = row or (None, None, None)
    return replace(match, author=author, matched_at=at, note=note)
