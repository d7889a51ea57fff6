"""The whole hierarchy of one graph as columns, one element per node, in execution order."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from tb_graph_ascend.cells import INT32, MAX_NODE, text
from tb_graph_ascend.database import DamagedError
from tb_graph_ascend.query_graph import BENCH, NPU, Graph, find_graph, read_graph
from tb_graph_ascend.query_summary import GRADES

Ints = NDArray[np.int64]
UNMATCHED = GRADES - 1
NO_NODE = -1


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
    error: NDArray[np.float64]  # -1 where there is none
    overflow: Ints
    unmatched_reason: Ints  # number in unmatched_reasons plus 1
    unmatched_reasons: list[str]

    def __len__(self) -> int:
        return len(self.stem)


def read_skeleton(connection: sqlite3.Connection, step: int, rank: int, side: int) -> Skeleton:
    """All nodes of one side, and where its matched nodes' partners lie on the other."""
    graph = read_graph(connection, step, rank, side)
    other = find_graph(connection, step, rank, BENCH if side == NPU else NPU)
    columns, error = _read_nodes(connection, graph)
    stem_id, direction, call, kind, end, micro_step, grade, overflow, partner = columns
    index = np.arange(len(stem_id))
    subtree_size = end - graph.first_node - index + 1
    matched = partner != NO_NODE
    offset: Ints = np.empty(0, np.int64)
    if other is not None and matched.any():
        if (matched == (grade == UNMATCHED)).any():
            raise DamagedError("a node's grade contradicts its match")
        place = _check(partner[matched] - other.first_node, 0, other.node_count - 1, "match")
        offset = place - index[matched]
    _check(subtree_size, 1, graph.node_count, "node.subtree_end")
    _check(index + subtree_size, 1, graph.node_count, "node.subtree_end")
    stem_ids, stem = np.unique(stem_id, return_inverse=True)
    reason, reasons = _read_reasons(connection, graph)
    return Skeleton(
        stems=_read_texts(connection, graph, stem_ids),
        stem=stem,
        direction=_check(direction, 0, 2, "node.direction"),
        call=_check(call, 0, INT32, "node.call"),
        kind=_check(kind, 0, 2, "node.kind"),
        subtree_size=subtree_size,
        micro_step=_check(micro_step, 0, INT32, "node.micro_step"),
        grade=_check(grade, 0, UNMATCHED, "node.grade"),
        partner_offset=offset,
        error=error,
        overflow=_check(overflow, 0, 3, "node.overflow") if overflow.any() else overflow[:0],
        unmatched_reason=reason,
        unmatched_reasons=reasons,
    )


def _read_nodes(
    connection: sqlite3.Connection, graph: Graph
) -> tuple[list[Ints], NDArray[np.float64]]:
    """Whole-number columns of the nodes with their partners' ids, and their errors."""
    own, partner = ("npu_node", "bench_node") if graph.side == NPU else ("bench_node", "npu_node")
    query = (
        "SELECT stem_id, direction, ifnull(call, 0), kind,"
        " subtree_end, micro_step, grade,"
        f" ifnull(overflow, 0), ifnull({partner}, {NO_NODE}), ifnull(error, -1.0)"
        f" FROM node LEFT JOIN match ON {own} = node_id WHERE node_id BETWEEN ? AND ?"
        " ORDER BY node_id"
    )
    rows = connection.execute(query, (graph.first_node, graph.last_node))
    try:
        # One flat stream of floats: no list of rows, and four times less memory than one.
        flat = np.fromiter(chain.from_iterable(rows), np.float64)
    except (TypeError, ValueError) as error:
        raise DamagedError(f"a column of table node holds something else: {error}") from error
    table = flat.reshape(-1, 10)
    if len(table) != graph.node_count:
        raise DamagedError(f"{len(table)} of {graph.node_count} nodes are there")
    *columns, error_column = np.ascontiguousarray(table.T)
    return [_integers(column) for column in columns], error_column


def _integers(column: NDArray[np.float64]) -> Ints:
    if (np.abs(column) > MAX_NODE).any() or (np.trunc(column) != column).any():
        raise DamagedError("a number of table node is out of bounds")
    return column.astype(np.int64)


def _check(column: Ints, low: int, high: int, name: str) -> Ints:
    if int(column.min()) < low or int(column.max()) > high:
        raise DamagedError(f"a value of {name} is outside {low} … {high}")
    return column


def _read_texts(connection: sqlite3.Connection, graph: Graph, ids: Ints) -> list[str]:
    rows = connection.execute(
        "SELECT text_id, value FROM text WHERE text_id IN"
        " (SELECT stem_id FROM node WHERE node_id BETWEEN ? AND ?)",
        (graph.first_node, graph.last_node),
    )
    values = {number: text(value) for number, value in rows}
    try:
        return [values[number] for number in ids.tolist()]
    except KeyError as error:
        raise DamagedError(f"text {error} is missing") from error


def _read_reasons(connection: sqlite3.Connection, graph: Graph) -> tuple[Ints, list[str]]:
    rows = connection.execute(
        "SELECT node_id, name FROM unmatched JOIN unmatched_reason USING (reason)"
        " WHERE node_id BETWEEN ? AND ?",
        (graph.first_node, graph.last_node),
    ).fetchall()
    numbers: dict[str, int] = {}
    column = np.zeros(graph.node_count if rows else 0, np.int64)
    for node, name in rows:
        column[node - graph.first_node] = numbers.setdefault(text(name), len(numbers) + 1)
    return column, list(numbers)
