"""How many nodes a file has, how many are matched, and how they are graded."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from math import nan
from typing import NamedTuple

from msprobe_builder.base.codes import Grade, words
from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.database.read.cells import (
    INT32,
    integer,
    integers,
    number,
    optional_integer,
    optional_text,
    text,
)
from msprobe_builder.facts.fact import Facts, decode, text_fact

_DIAGNOSTICS = (
    "SELECT severity, code, message, subject, count, side, step, rank FROM diagnostic"
    " ORDER BY diagnostic_id"
)


@dataclass(frozen=True)
class Counts:
    """Nodes of both sides, matches, and npu nodes by the word of their grade."""

    npu_nodes: int
    bench_nodes: int
    matched: int
    by_evidence: int  # of these, those that were not matched by a rule or a person
    bench_grouped: int  # bench nodes without a partner that are compared as part of a group
    aligned: Facts  # what automatic matching did; empty where it did nothing
    grades: dict[str, int]


def read_counts(connection: sqlite3.Connection) -> Counts:
    """Of all steps and ranks together."""
    graphs = read_graph_counts(connection)
    npu, bench = (sum(one.nodes for one in graphs if one.side == side) for side in (0, 1))
    graded = zip(*(one.grades for one in graphs if one.side == 0), strict=True)
    [[matched, by_evidence]] = connection.execute("SELECT count(*), count(evidence) FROM match")
    [[bench_grouped]] = connection.execute(
        "SELECT count(*) FROM group_member JOIN node USING (node_id) JOIN graph USING (graph_id)"
        " WHERE side = 1"
    )
    alignment = connection.execute(
        "SELECT value FROM meta WHERE key = 'alignment' AND value IS NOT NULL"
    )
    return Counts(
        npu,
        bench,
        matched,
        by_evidence,
        bench_grouped,
        tuple(one for (value,) in alignment for one in decode(text(value))),
        dict(zip(words(Grade), map(sum, graded), strict=True)),
    )


def read_diagnostics(connection: sqlite3.Connection, limit: int = -1) -> list[Diagnostic]:
    """What the build noticed, the first ``limit``, without one all."""
    return [
        Diagnostic(
            text(severity),
            text(code),
            (*decode(text(message)), text_fact(""))[0],
            optional_text(subject),
            integer(count),
            side=optional_integer(side, 0, 1),
            step=optional_integer(step),
            rank=optional_integer(rank),
        )
        for severity, code, message, subject, count, side, step, rank in connection.execute(
            f"{_DIAGNOSTICS} LIMIT ?", (limit,)
        )
    ]


class GraphCounts(NamedTuple):
    """One graph: its size, its nodes by grade, the worst grade below the root."""

    graph_id: int
    step: int
    rank: int
    side: int
    micro_steps: int
    nodes: int
    grades: tuple[int, ...]  # by number of the grade, the root included
    worst: int
    loss: float | None = None


def read_graph_counts(connection: sqlite3.Connection) -> list[GraphCounts]:
    """Of all graphs by step, rank and side; cheap, it reads the roots alone."""
    counted = ", ".join(f"ifnull(rollup.{word}, 0)" for word in words(Grade))
    rows = connection.execute(
        "SELECT graph.graph_id, step, rank, side, micro_steps, node_count, root.grade,"
        f" ifnull(worst_grade, 0), loss, {counted} FROM graph"
        " JOIN node AS root ON root.node_id = first_node"
        " LEFT JOIN rollup ON rollup.node_id = first_node ORDER BY step, rank, side"
    ).fetchall()
    if not rows:
        return []
    # A column at a time: a file of a thousand ranks and ten steps has 20,000 of them.
    last = len(Grade) - 1
    graph, step, rank, side, micro_steps, nodes, own, worst, loss, *below = zip(*rows, strict=True)
    plain = [integers(column) for column in (graph, step, rank)]
    sides = integers(side, 0, 1)
    more = [integers(column) for column in (micro_steps, nodes)]
    grades = [
        list(counts) for counts in zip(*(integers(of, 0, INT32) for of in below), strict=True)
    ]
    for counts, grade in zip(grades, integers(own, 0, last), strict=True):
        counts[grade] += 1
    columns = (*plain, sides, *more, map(tuple, grades), integers(worst, 0, last), map(_loss, loss))
    return list(map(GraphCounts, *columns))


def _loss(value: object) -> float | None:
    return nan if value == "NaN" else number(value)
