"""The whole hierarchy of one graph as columns, one element per node, in execution order."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import CallRole, Grade, Source
from msprobe_builder.database.problems import DamagedError
from msprobe_builder.database.read.cells import INT32, MAX_NODE, integer, text
from msprobe_builder.database.read.graphs import NPU, Graph
from msprobe_builder.database.read.groups import read_members
from msprobe_builder.database.read.node_columns import Ints, read_node_columns

UNMATCHED = int(Grade.UNMATCHED)


@dataclass(frozen=True)
class Skeleton:
    """Columns in pre-order; texts are numbered by ``stem`` and ``unmatched_reason``."""

    stems: list[str]
    stem: Ints
    direction: Ints
    call: Ints
    kind: Ints
    subtree_size: Ints
    micro_step: Ints
    grade: Ints
    partner_offset: Ints  # one element per node that is not graded unmatched, or empty
    error: NDArray[np.float32]  # -1 where there is none
    overflow: Ints
    unmatched_reason: Ints  # number in unmatched_reasons plus 1
    unmatched_reasons: list[str]
    role: Ints  # CallRole of each npu node, or empty
    match_source: Ints  # one element per matched node, or empty; so below
    match_certainty: Ints  # percent, 0 where evidence made no match
    group: Ints  # place of each node's group in the list of groups plus 1, or empty

    def __len__(self) -> int:
        return len(self.stem)


def read_skeleton(
    connection: sqlite3.Connection, graph: Graph, other: Graph | None, changes: int | None = None
) -> Skeleton:
    """All nodes of one side, and where its matched nodes' partners lie on the other.

    ``changes`` as in :func:`read_node_columns`.
    """
    columns = read_node_columns(connection, graph, changes)
    direction, call, kind = columns["direction"], columns["call"], columns["kind"]
    micro_step, grade, overflow = columns["micro_step"], columns["grade"], columns["overflow"]
    source, certainty = columns["source"], columns["certainty"]
    to_partner = columns["to_partner"]
    index = np.arange(graph.count)
    subtree_size = columns["below"].astype(np.int32) + 1
    matched = to_partner != 0
    offset: Ints = np.empty(0, np.int64)
    if other is not None and matched.any():
        if (matched == (grade == UNMATCHED)).any():
            raise DamagedError("a node's grade contradicts its match")
        offset = to_partner[matched].astype(np.int64) + graph.first - other.first
        _check(offset + index[matched], 0, other.count - 1, "match")
    _check(subtree_size, 1, graph.count, "node.subtree_end")
    _check(index + subtree_size, 1, graph.count, "node.subtree_end")
    stem_ids, stem = np.unique(columns["stem_id"], return_inverse=True)
    reason, reasons = _read_reasons(connection, graph)
    return Skeleton(
        stems=_read_texts(connection, stem_ids.tolist()),
        stem=stem,
        direction=_check(direction, 0, 2, "node.direction"),
        call=_check(call, 0, INT32, "node.call"),
        kind=_check(kind, 0, 2, "node.kind"),
        subtree_size=subtree_size,
        micro_step=_check(micro_step, 0, INT32, "node.micro_step"),
        grade=_check(grade, 0, UNMATCHED, "node.grade"),
        partner_offset=offset,
        error=columns["error"],
        overflow=_check(overflow, 0, 3, "node.overflow") if overflow.any() else overflow[:0],
        unmatched_reason=reason,
        unmatched_reasons=reasons,
        role=_read_roles(connection, graph, matched),
        match_source=_check(source[matched], 0, len(Source) - 1, "match.source")
        if source.any()
        else source[:0],
        match_certainty=_check(certainty[matched], 0, 100, "match.certainty")
        if certainty.any()
        else certainty[:0],
        group=_read_groups(connection, graph),
    )


def _read_groups(connection: sqlite3.Connection, graph: Graph) -> Ints:
    """Place of each node's group among those of its step and rank plus 1; empty without groups."""
    members = read_members(connection, graph.step, graph.rank)
    if not members:
        return np.empty(0, np.int64)
    result = np.zeros(graph.count, np.int64)
    for place, nodes in enumerate(members.values(), start=1):
        for node in nodes[graph.side]:
            result[node - graph.first] = place
    return result


def _read_roles(connection: sqlite3.Connection, graph: Graph, matched: NDArray[np.bool_]) -> Ints:
    """What part each npu node plays; empty on the bench side and without a verdict."""
    judged = connection.execute("SELECT count(*) FROM verdict").fetchone()[0]
    if graph.side != NPU or not judged:
        return np.empty(0, np.int64)
    result = np.where(matched, int(CallRole.CLEAN), int(CallRole.UNKNOWN))
    result[0] = CallRole.UNKNOWN
    rows = connection.execute(
        "SELECT node_id, role FROM role WHERE node_id BETWEEN ? AND ?",
        (graph.first, graph.last),
    ).fetchall()
    for node, role in rows:
        result[integer(node, 0, MAX_NODE) - graph.first] = integer(role, 0, len(CallRole) - 1)
    return result


def _check(column: Ints, low: int, high: int, name: str) -> Ints:
    if column.size and (int(column.min()) < low or int(column.max()) > high):
        raise DamagedError(f"a value of {name} is outside {low} … {high}")
    return column


def _read_texts(connection: sqlite3.Connection, ids: list[int]) -> list[str]:
    rows = connection.execute(
        "SELECT text_id, text.value FROM json_each(?) AS wanted"
        " JOIN text ON text_id = wanted.value",
        (json.dumps(ids),),
    )
    values = {number: text(value) for number, value in rows}
    if missing := set(ids) - values.keys():
        raise DamagedError(f"text {min(missing)} is missing")
    return [values[number] for number in ids]


def _read_reasons(connection: sqlite3.Connection, graph: Graph) -> tuple[Ints, list[str]]:
    rows = connection.execute(
        "SELECT node_id, name FROM unmatched JOIN unmatched_reason USING (reason)"
        " WHERE node_id BETWEEN ? AND ?",
        (graph.first, graph.last),
    ).fetchall()
    numbers: dict[str, int] = {}
    column = np.zeros(graph.count if rows else 0, np.int64)
    for node, name in rows:
        column[node - graph.first] = numbers.setdefault(text(name), len(numbers) + 1)
    return column, list(numbers)
