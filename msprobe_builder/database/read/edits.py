"""What was done by hand: the history of nodes, what can be undone, and the matches to export."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from msprobe_builder.base.codes import Source
from msprobe_builder.database.problems import DamagedError
from msprobe_builder.database.read.cells import MAX_NODE, integer, optional_integer, text
from msprobe_builder.database.read.names import read_names

ACTIONS = {"match": 0, "unmatch": 1, "confirm": 2, "reject": 3}
CHOSEN_SOURCES = (int(Source.MANUAL), int(Source.FILE))

_EDITS = (
    "SELECT edit.batch, edited_at, author, action, npu.step, npu.rank, npu_node, npu.first_node,"
    " bench_node, bench.first_node, reason, undone,"
    " (SELECT count(*) FROM edit AS other WHERE other.batch = edit.batch)"
    " FROM edit"
    " JOIN node AS npu_end ON npu_end.node_id = npu_node"
    " JOIN graph AS npu ON npu.graph_id = npu_end.graph_id"
    " JOIN node AS bench_end ON bench_end.node_id = bench_node"
    " JOIN graph AS bench ON bench.graph_id = bench_end.graph_id"
)

# What was made and ended again is as it was; a confirmed match is the one that was judged.
_CHANGED = """
SELECT count(*) FROM (
    SELECT 1 FROM edit WHERE NOT undone AND action != 'confirm' GROUP BY npu_node, bench_node
    HAVING sum(CASE action WHEN 'match' THEN 1 ELSE -1 END)
)
"""


@dataclass(frozen=True)
class Edit:
    """A match that was made or ended by hand, and how many the same request changed."""

    batch: int
    edited_at: str
    author: str
    action: int
    step: int
    rank: int
    npu: int  # index
    bench: int
    npu_name: str
    bench_name: str
    reason: str
    undone: bool
    pairs: int


@dataclass(frozen=True)
class EditState:
    """What undo and redo would do, and how many matches are not those that were judged."""

    undo: Edit | None
    redo: Edit | None
    changed: int = 0


@dataclass(frozen=True)
class ManualMatch:
    """A match made by hand or from a file."""

    npu: str
    bench: str
    step: int
    rank: int


def read_history(connection: sqlite3.Connection, nodes: Iterable[int | None]) -> list[Edit]:
    """Edits of one or two nodes, the npu one first; oldest first.

    The rejection of a group names two of its calls and is an edit of all of them.
    """
    npu, bench = nodes
    query = (
        f"{_EDITS} WHERE edit_id IN (SELECT edit_id FROM edit WHERE npu_node = ?"
        " UNION SELECT edit_id FROM edit WHERE bench_node = ?"
        " UNION SELECT edit_id FROM group_member AS own"
        " JOIN group_member AS named USING (call_group_id)"
        " JOIN edit ON npu_node = named.node_id JOIN group_member AS other"
        " ON other.call_group_id = own.call_group_id AND other.node_id = bench_node"
        " WHERE own.node_id IN (?, ?) AND action = 'reject') ORDER BY edit_id"
    )
    return _edits(connection, query, (npu, bench, npu, bench))


def read_edit_state(connection: sqlite3.Connection) -> EditState:
    """What the user could undo or redo now."""
    # Of many edits of one request the first match says best what it was.
    query = f"{_EDITS} WHERE edit.batch = ? ORDER BY action, edit_id LIMIT 1"
    found = []
    for batch in (read_undoable(connection), read_redoable(connection)):
        edits = [] if batch is None else _edits(connection, query, (batch,))
        found.append(edits[0] if edits else None)
    undo, redo = found
    return EditState(undo, redo, read_changed(connection))


def read_changed(connection: sqlite3.Connection) -> int:
    """How many pairs were made or ended since the build, which the verdict does not know."""
    [[pairs]] = connection.execute(_CHANGED)
    return integer(pairs, 0)


def read_undoable(connection: sqlite3.Connection) -> int | None:
    """The batch that was done last, None when nothing is left to undo."""
    [[batch]] = connection.execute("SELECT max(batch) FROM edit WHERE NOT undone")
    return optional_integer(batch)


def read_redoable(connection: sqlite3.Connection) -> int | None:
    """The batch that was undone last and can be done again, None when there is none."""
    [[batch]] = connection.execute(
        "SELECT min(batch) FROM edit WHERE undone = 1"  # 2 is undone for good
        " AND batch > (SELECT ifnull(max(batch), 0) FROM edit WHERE NOT undone)"
    )
    return optional_integer(batch)


def read_manual_matches(connection: sqlite3.Connection) -> list[ManualMatch]:
    """Every match that a person chose, in order of execution."""
    rows = connection.execute(
        "SELECT npu_node, bench_node, step, rank FROM match JOIN node ON node_id = npu_node"
        " JOIN graph USING (graph_id) WHERE source IN (?, ?) ORDER BY npu_node",
        CHOSEN_SOURCES,
    ).fetchall()
    names = read_names(connection, {node for row in rows for node in row[:2]})
    return [
        ManualMatch(names[npu], names[bench], integer(step), integer(rank))
        for npu, bench, step, rank in rows
    ]


def read_rejected_matches(connection: sqlite3.Connection) -> list[ManualMatch]:
    """Every match that a person rejected and that nothing has replaced, in order of execution."""
    rows = connection.execute(
        "SELECT node_id, candidate_id, step, rank FROM unmatched JOIN unmatched_reason"
        " USING (reason) JOIN node USING (node_id) JOIN graph USING (graph_id)"
        " WHERE unmatched_reason.name = 'rejected' AND side = 0 AND candidate_id IS NOT NULL"
        " ORDER BY node_id"
    ).fetchall()
    names = read_names(connection, {node for row in rows for node in row[:2]})
    return [
        ManualMatch(names[npu], names[bench], integer(step), integer(rank))
        for npu, bench, step, rank in rows
    ]


def _edits(connection: sqlite3.Connection, query: str, bound: tuple[object, ...]) -> list[Edit]:
    rows = connection.execute(query, bound).fetchall()
    names = read_names(connection, {node for row in rows for node in (row[6], row[8])})
    result = []
    for batch, at, author, action, step, rank, *rest in rows:
        npu, npu_first, bench, bench_first, reason, undone, pairs = rest
        if action not in ACTIONS:
            raise DamagedError(f"{action!r} is no action of table edit")
        result.append(
            Edit(
                batch=integer(batch),
                edited_at=text(at),
                author=text(author),
                action=ACTIONS[action],
                step=integer(step),
                rank=integer(rank),
                npu=integer(npu, 0, MAX_NODE) - integer(npu_first, 0, MAX_NODE),
                bench=integer(bench, 0, MAX_NODE) - integer(bench_first, 0, MAX_NODE),
                npu_name=names[npu],
                bench_name=names[bench],
                reason=text(reason),
                undone=integer(undone, 0, 2) > 0,
                pairs=integer(pairs),
            )
        )
    return result
