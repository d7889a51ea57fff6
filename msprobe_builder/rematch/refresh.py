"""Errors, grades and roll-ups of nodes whose match changed, by the functions of the build."""

from __future__ import annotations

import heapq
import sqlite3
from collections import defaultdict
from math import nan

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.bands import Band
from msprobe_builder.base.codes import Grade
from msprobe_builder.database.read.graphs import NPU, Graph
from msprobe_builder.database.read.matches import partner_of, partners_of
from msprobe_builder.database.read.meta import read_bands, read_task
from msprobe_builder.database.read.parts import read_errors
from msprobe_builder.database.read.tree import read_ancestors, read_collections, read_grades
from msprobe_builder.database.write.comparisons import write_comparisons
from msprobe_builder.database.write.grades import (
    add_to_rollup,
    delete_comparisons,
    grade_bench,
    store_grades,
)
from msprobe_builder.database.write.texts import StoredTexts
from msprobe_builder.dump.task import Task
from msprobe_builder.match.matching import Matching, Unmatched, inverse
from msprobe_builder.metrics.grading import collection_errors, grades
from msprobe_builder.metrics.measure import measure
from msprobe_builder.rematch.graphs import GraphPair, nodes_in
from msprobe_builder.rematch.parts import load_part, load_tree

Int = NDArray[np.int64]


def refresh(
    connection: sqlite3.Connection, pairs: list[GraphPair], npu: set[int], bench: set[int]
) -> set[int]:
    """Bring all that follows from matches up to date; returns every node that may differ."""
    task = read_task(connection)
    profile = read_bands(connection)
    parent = read_ancestors(connection, npu | bench)
    collections = read_collections(connection, npu | parent.keys())
    changed = npu | bench | collections.keys()
    before = read_grades(connection, changed)
    ordered, ordered_collections = sorted(npu), sorted(collections)
    for pair in pairs:
        of_pair = set(nodes_in(pair.npu, ordered))
        if of_pair:
            _measure_again(connection, pair, of_pair, task, profile)
        for node in nodes_in(pair.npu, ordered_collections):
            _grade_collection(connection, pair.npu, node, collections[node], profile)
    grade_bench(connection, bench)
    _roll_up(connection, parent, before, read_grades(connection, changed))
    return changed


def _measure_again(
    connection: sqlite3.Connection,
    pair: GraphPair,
    nodes: set[int],
    task: Task,
    profile: tuple[Band, ...],
) -> None:
    partners = partners_of(connection, NPU, nodes)
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
    delete_comparisons(connection, ids)
    tables = npu.side.table, bench.side.table
    write_comparisons(connection, measured.comparisons, *tables, npu.nodes, texts.store)
    measures = zip(ids, measured.error[1:].tolist(), grade[1:].tolist(), strict=True)
    store_grades(connection, measures)


def _grade_collection(
    connection: sqlite3.Connection,
    graph: Graph,
    node: int,
    end: int,
    profile: tuple[Band, ...],
) -> None:
    stored = read_errors(connection, node, end)
    error = np.array([nan, *(nan if value is None else value for value in stored)])
    _, tree = load_tree(connection, graph, [(node, end)], StoredTexts(connection))
    is_matched = partner_of(connection, NPU, node) is not None
    partner = np.full(len(error), 0 if is_matched else -1)
    result = collection_errors(tree, partner, error)
    grade = int(grades(result, partner, profile)[1])
    store_grades(connection, [(node, float(result[1]), grade)])


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
        add_to_rollup(connection, node, difference)
