"""Changes by hand: each is recorded, so that it can be undone and its history told."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

from msprobe_builder.base.codes import Source
from msprobe_builder.database.read.edits import read_redoable, read_undoable
from msprobe_builder.database.read.graphs import BENCH, NPU
from msprobe_builder.database.read.groups import group_of_both
from msprobe_builder.database.read.matches import partner_of
from msprobe_builder.database.write.edits import CONFIRM as CONFIRM
from msprobe_builder.database.write.edits import MATCH as MATCH
from msprobe_builder.database.write.edits import REJECT as REJECT
from msprobe_builder.database.write.edits import UNMATCH as UNMATCH
from msprobe_builder.database.write.edits import (
    StoredEdit,
    begin_batch,
    insert_edit,
    mark_undone,
    match_before,
    read_batch,
)
from msprobe_builder.database.write.matches import (
    BY_HAND,
    REJECTED,
    StoredMatch,
    delete_match,
    insert_match,
    judge_match,
    restore_group,
)
from msprobe_builder.database.write.matches import reject_group as store_rejection


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
    bench_before = partner_of(connection, NPU, npu)
    npu_before = partner_of(connection, BENCH, bench)
    if bench_before == bench:
        return
    if bench_before is not None:
        end(edits, npu, bench_before, "replaced")
    if npu_before is not None:
        end(edits, npu_before, bench, "replaced")
    match = StoredMatch(npu, bench, int(edits.source), edits.author, edits.at, edits.reason)
    insert_match(connection, match)
    _record(edits, Change(MATCH, npu, bench, cause), match)


def end(edits: Edits, npu: int, bench: int, cause: str, action: str = UNMATCH) -> None:
    """End the match of two nodes; ``action`` is UNMATCH, or REJECT of an automatic match."""
    match = delete_match(edits.connection, npu, bench, _reason_of(action))
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


def reject_group(edits: Edits, group: int, npu: int, bench: int, cause: str) -> None:
    """End a group of calls; the edit names a call of each side, which stand for it."""
    store_rejection(edits.connection, group)
    match = StoredMatch(npu, bench, int(Source.AUTOMATIC))
    _record(edits, Change(REJECT, npu, bench, cause), match)


def _reason_of(action: str) -> str:
    return REJECTED if action == REJECT else BY_HAND


def undo(edits: Edits) -> bool:
    """Take back what was done last; whether there was anything."""
    batch = read_undoable(edits.connection)
    if batch is None:
        return False
    for edit in reversed(read_batch(edits.connection, batch)):
        match = edit.match
        if edit.action == MATCH:
            delete_match(edits.connection, match.npu, match.bench)
            edits.changes.append(Change(UNMATCH, match.npu, match.bench, "undo"))
        elif edit.action == CONFIRM:
            judge_match(edits.connection, _unconfirmed(match))
            edits.changes.append(Change(MATCH, match.npu, match.bench, "undo"))
        elif (group := _group_of(edits.connection, edit)) is not None:
            restore_group(edits.connection, group)
            edits.changes.append(Change(MATCH, match.npu, match.bench, "undo"))
        else:
            insert_match(edits.connection, match_before(edits.connection, edit))
            edits.changes.append(Change(MATCH, match.npu, match.bench, "undo"))
    mark_undone(edits.connection, batch, undone=True)
    return True


def redo(edits: Edits) -> bool:
    """Do again what was undone last; whether there was anything that still fits the matches."""
    batch = read_redoable(edits.connection)
    if batch is None:
        return False
    done = read_batch(edits.connection, batch)
    if not _fits(edits.connection, done):
        return False
    for edit in done:
        _, action, match = edit
        if action == MATCH:
            insert_match(edits.connection, match)
        elif action == CONFIRM:
            judge_match(edits.connection, match)
        elif (group := _group_of(edits.connection, edit)) is not None:
            store_rejection(edits.connection, group)
        else:
            delete_match(edits.connection, match.npu, match.bench, _reason_of(action))
        edits.changes.append(Change(action, match.npu, match.bench, "redo"))
    mark_undone(edits.connection, batch, undone=False)
    return True


def _fits(connection: sqlite3.Connection, done: list[StoredEdit]) -> bool:
    """Whether the matches are still those that the first edits of a batch were made on."""
    partners: dict[tuple[int, int], int | None] = {}
    for edit in done:
        _, action, match = edit
        ends = ((NPU, match.npu), (BENCH, match.bench))
        for side, node in ends:
            if (side, node) not in partners:
                partners[side, node] = partner_of(connection, side, node)
        now = partners[ends[0]], partners[ends[1]]
        is_free = action == MATCH or _group_of(connection, edit) is not None
        if now != ((None, None) if is_free else (match.bench, match.npu)):
            return False
        after = (match.bench, match.npu) if action in (MATCH, CONFIRM) else (None, None)
        partners[ends[0]], partners[ends[1]] = after
    return True


def _group_of(connection: sqlite3.Connection, edit: StoredEdit) -> int | None:
    """The group that an edit rejected, None when it did something else."""
    if edit.action != REJECT:
        return None
    return group_of_both(connection, edit.match.npu, edit.match.bench, standing=False)


def _unconfirmed(match: StoredMatch) -> StoredMatch:
    """A confirmed match as it was before."""
    return replace(match, source=int(Source.AUTOMATIC), author=None, matched_at=None, note=None)


def _record(edits: Edits, change: Change, match: StoredMatch) -> None:
    edits.changes.append(change)
    if not edits._batch:
        edits._batch = begin_batch(edits.connection)
    by_hand = replace(match, author=edits.author, matched_at=edits.at, note=edits.reason)
    insert_edit(edits.connection, edits._batch, change.action, by_hand)
