"""Errors, grades and roll-ups of nodes whose match changed, by the functions of the build."""

from __future__ import annotations

import heapq
import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from math import nan

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import Grade
from msprobe_builder.database.write.comparisons import write_comparisons
from msprobe_builder.dump.names import Kind
from msprobe_builder.dump.task import Task
from msprobe_builder.match.matching import Matching, Unmatched, inverse
from msprobe_builder.metrics.grading import Band, collection_errors, grades
from msprobe_builder.metrics.measure import measure
from msprobe_builder.rematch.graphs import GraphPair, StoredGraph
from msprobe_builder.rematch.parts import load_part, load_tree
from msprobe_builder.rematch.texts import StoredTexts

Int = NDArray[np.int64]

_GRADED = (Grade.OK, Grade.SLIGHT, Grade.MODERATE, Grade.SERIOUS, Grade.SEVERE)
_COUNTS = tuple(grade.name.lower() for grade in Grade)
_PARTNERS = (
    "SELECT npu_node, bench_node FROM match JOIN json_each(?) AS wanted ON npu_node = wanted.value"
)


def refresh(
    connection: sqlite3.Connection, pairs: list[GraphPair], npu: set[int], bench: set[int]
) -> set[int]:
    """Bring all that follows from matches up to date; returns every node that may differ."""
    task = Task(_meta(connection, "task"))
    profile = _profile(connection)
    parent = _ancestors(connection, npu | bench)
    collections = _collections(connection, npu | parent.keys())
    changed = npu | bench | collections.keys()
    before = _grades(connection, changed)
    for pair in pairs:
        of_pair = {node for node in npu if pair.npu.first <= node <= pair.npu.last}
        if of_pair:
            _measure_again(connection, pair, of_pair, task, profile)
        for node, end in collections.items():
            if pair.npu.first <= node <= pair.npu.last:
                _grade_collection(connection, pair.npu, node, end, profile)
    connection.executemany(
        "UPDATE node SET grade = iif(EXISTS (SELECT 1 FROM match WHERE bench_node = node_id), ?, ?)"
        " WHERE node_id = ?",
        [(int(Grade.UNGRADED), int(Grade.UNMATCHED), node) for node in bench],
    )
    _roll_up(connection, parent, before, _grades(connection, changed))
    return changed


def _measure_again(
    connection: sqlite3.Connection,
    pair: GraphPair,
    nodes: set[int],
    task: Task,
    profile: tuple[Band, ...],
) -> None:
    partners = dict(connection.execute(_PARTNERS, (json.dumps(sorted(nodes)),)))
    texts = StoredTexts(connection)
    npu = load_part(connection, pair.npu, nodes, texts)
    bench = load_part(connection, pair.bench, partners.values(), texts)
    partner = np.full(len(npu.nodes), -1, dtype=np.int64)
    partner[npu.index(partners)] = bench.index(partners.values())
    none = np.empty(0, dtype=np.int64)
    nothing = Unmatched(none, none, none, [])
    back = inverse(partner, len(bench.nodes))
    matching = Matching(partner, back, np.zeros_like(partner), nothing, nothing)
    measured = measure(task, npu.side, bench.side, matching, texts.texts)
    grade = grades(measured.error, partner, profile)
    ids = npu.nodes[1:].tolist()
    connection.executemany("DELETE FROM comparison WHERE npu_node = ?", [(node,) for node in ids])
    tables = npu.side.table, bench.side.table
    write_comparisons(connection, measured.comparisons, *tables, npu.nodes, texts.store)
    connection.executemany(
        "UPDATE node SET error = ?, grade = ? WHERE node_id = ?",  # NaN is stored as NULL
        zip(measured.error[1:].tolist(), grade[1:].tolist(), ids, strict=True),
    )


def _grade_collection(
    connection: sqlite3.Connection,
    graph: StoredGraph,
    node: int,
    end: int,
    profile: tuple[Band, ...],
) -> None:
    rows = connection.execute(
        "SELECT error FROM node WHERE node_id BETWEEN ? AND ? ORDER BY node_id", (node, end)
    )
    error = np.array([nan, *(nan if value is None else value for (value,) in rows)])
    _, tree = load_tree(connection, graph, [(node, end)], StoredTexts(connection))
    is_matched = connection.execute("SELECT 1 FROM match WHERE npu_node = ?", (node,)).fetchone()
    partner = np.full(len(error), 0 if is_matched else -1)
    result = collection_errors(tree, partner, error)
    connection.execute(
        "UPDATE node SET error = ?, grade = ? WHERE node_id = ?",
        (result[1], int(grades(result, partner, profile)[1]), node),
    )


def _ancestors(connection: sqlite3.Connection, nodes: set[int]) -> dict[int, int]:
    """Parent of each node and of all their ancestors; the roots have none."""
    parent: dict[int, int] = {}
    wanted = nodes
    while wanted:
        rows = connection.execute(
            "SELECT node_id, parent_id FROM json_each(?) AS wanted"
            " JOIN node ON node_id = wanted.value WHERE parent_id IS NOT NULL",
            (json.dumps(sorted(wanted)),),
        )
        found = dict(rows)
        parent |= found
        wanted = set(found.values()) - parent.keys()
    return parent


def _collections(connection: sqlite3.Connection, nodes: set[int]) -> dict[int, int]:
    """Collections of the npu side among the nodes, with the end of each.

    Their errors follow from what they hold.
    """
    return dict(
        connection.execute(
            "SELECT node_id, subtree_end FROM json_each(?) AS wanted"
            " JOIN node ON node_id = wanted.value JOIN graph USING (graph_id)"
            " WHERE kind = ? AND side = 0",
            (json.dumps(sorted(nodes)), int(Kind.COLLECTION)),
        )
    )


def _roll_up(
    connection: sqlite3.Connection,
    parent: dict[int, int],
    before: dict[int, int],
    after: dict[int, int],
) -> None:
    """Add what changed to the counts of all ancestors; parents have lower ids than children."""
    below: dict[int, Int] = defaultdict(lambda: np.zeros(len(Grade), dtype=np.int64))
    for node, grade in after.items():
        if grade != before[node] and node in parent:
            below[parent[node]][before[node]] -= 1
            below[parent[node]][grade] += 1
    waiting = [-node for node in below]
    heapq.heapify(waiting)
    while waiting:
        node = -heapq.heappop(waiting)
        above = parent.get(node)
        if above is not None:
            if above not in below:
                heapq.heappush(waiting, -above)
            below[above] += below[node]
    for node, difference in below.items():
        row = connection.execute(
            f"SELECT {', '.join(_COUNTS)} FROM rollup WHERE node_id = ?", (node,)
        ).fetchone()
        counts = (np.array(row) + difference).tolist()
        worst = max((grade for grade in _GRADED if counts[grade]), default=Grade.UNGRADED)
        connection.execute(
            f"UPDATE rollup SET worst_grade = ?, {', '.join(f'{name} = ?' for name in _COUNTS)}"
            " WHERE node_id = ?",
            (int(worst), *counts, node),
        )


def _grades(connection: sqlite3.Connection, nodes: Iterable[int]) -> dict[int, int]:
    query = "SELECT node_id, grade FROM json_each(?) AS wanted JOIN node ON node_id = wanted.value"
    return dict(connection.execute(query, (json.dumps(sorted(nodes)),)))


def _profile(connection: sqlite3.Connection) -> tuple[Band, ...]:
    """The bands by which this file is graded."""
    rows = connection.execute("SELECT grade, low, high, colour FROM grade ORDER BY grade")
    return tuple(Band(Grade(grade), low, high, colour) for grade, low, high, colour in rows)


def _meta(connection: sqlite3.Connection, key: str) -> str:
    [[value]] = connection.execute("SELECT value FROM meta WHERE key = ?", (key,))
    return str(value)
