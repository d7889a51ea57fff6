"""What a file holds: its origin, its graphs, its grades and what the build noticed."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace

from msprobe_builder.base.bands import Band
from msprobe_builder.base.codes import SIDES, Grade
from msprobe_builder.database.read.cells import MAX_NODE, integer, optional_integer, text
from msprobe_builder.database.read.edits import EditState, read_edit_state
from msprobe_builder.database.read.graphs import BENCH, NPU, read_graphs
from msprobe_builder.database.read.meta import read_bands, read_meta
from msprobe_builder.database.read.verdict import Suspect, Verdict, read_verdict

MAX_DIAGNOSTICS = 1000
MAX_SUSPECTS = 200
GRADES = len(Grade)


@dataclass(frozen=True)
class GraphPair:
    """Both sides of one rank of one step; a side without nodes is not there."""

    step: int
    rank: int
    micro_steps: int
    npu_nodes: int
    bench_nodes: int
    grade_counts: tuple[int, ...]  # npu nodes per grade
    worst_grade: int
    bench_unmatched: int = 0
    overflow_counts: tuple[int, ...] = ()  # npu nodes per level above none; empty when there are 0
    bench_overflow_counts: tuple[int, ...] = ()


@dataclass(frozen=True)
class Diagnostic:
    """Something the build noticed."""

    severity: str
    code: str
    subject: str
    count: int
    message: str
    step: int | None
    rank: int | None
    side: int | None


@dataclass(frozen=True)
class SuspectNode:
    """A suspect of the verdict, and its place in the graph of its step and rank."""

    suspect: Suspect
    index: int


@dataclass(frozen=True)
class Summary:
    """Everything the catalog says about the content of a file."""

    meta: dict[str, str]
    graphs: tuple[GraphPair, ...]
    bands: tuple[Band, ...]
    diagnostics: tuple[Diagnostic, ...]
    failed: tuple[tuple[int, int, str], ...]  # step, rank, why the build left it out
    edits: EditState
    verdict: Verdict | None
    suspects: tuple[SuspectNode, ...]

    @property
    def is_comparison(self) -> bool:
        """Whether there is a reference run to compare with."""
        return self.meta.get("kind") == "compare"


def read_summary(connection: sqlite3.Connection) -> Summary:
    """Cheap whatever the number of nodes: counts come from the roots' rollups."""
    diagnostics = [
        Diagnostic(
            text(severity),
            text(code),
            text(subject),
            integer(count),
            text(message),
            optional_integer(step),
            optional_integer(rank),
            optional_integer(side, NPU, BENCH),
        )
        for severity, code, subject, count, message, step, rank, side in connection.execute(
            "SELECT severity, code, subject, count, message, step, rank, side FROM diagnostic"
            " ORDER BY diagnostic_id LIMIT ?",
            (MAX_DIAGNOSTICS,),
        )
    ]
    verdict = read_verdict(connection)
    failed = connection.execute(
        "SELECT step, rank, message FROM diagnostic WHERE code = 'rank_failed'"
        " AND step IS NOT NULL AND rank IS NOT NULL ORDER BY step, rank"
    )
    return Summary(
        read_meta(connection),
        _read_graphs(connection),
        read_bands(connection),
        tuple(diagnostics),
        tuple((integer(step), integer(rank), text(why)) for step, rank, why in failed),
        read_edit_state(connection),
        verdict,
        _suspect_nodes(connection, verdict),
    )


def _suspect_nodes(
    connection: sqlite3.Connection, verdict: Verdict | None
) -> tuple[SuspectNode, ...]:
    """The likeliest first; names repeat from step to step, places do not."""
    if verdict is None:
        return ()
    first = {
        (graph.step, graph.rank, SIDES[graph.side]): graph.first
        for graph in read_graphs(connection)
    }
    return tuple(
        SuspectNode(one, one.node_id - first[one.step, one.rank, one.side])
        for one in verdict.suspects[:MAX_SUSPECTS]
    )


def _read_graphs(connection: sqlite3.Connection) -> tuple[GraphPair, ...]:
    rows = connection.execute(
        "SELECT graph.graph_id, step, rank, side, micro_steps, node_count, root.grade, worst_grade,"
        " ungraded, ok, slight, moderate, serious, severe, unmatched"
        " FROM graph JOIN node AS root ON root.node_id = first_node"
        " LEFT JOIN rollup ON rollup.node_id = first_node ORDER BY step, rank, side"
    ).fetchall()
    overflows = _read_overflows(connection)
    pairs: dict[tuple[int, int], GraphPair] = {}
    for graph, step, rank, side, micro_steps, node_count, own_grade, worst, *below in rows:
        place = (integer(step), integer(rank))
        counts = [integer(count or 0, 0, MAX_NODE) for count in below]
        counts[integer(own_grade, 0, GRADES - 1)] += 1
        if integer(side, NPU, BENCH) == BENCH:
            npu = pairs.get(place, GraphPair(*place, integer(micro_steps), 0, 0, (), 0))
            pairs[place] = replace(
                npu,
                bench_nodes=integer(node_count),
                bench_unmatched=counts[GRADES - 1],
                bench_overflow_counts=overflows.get(graph, ()),
            )
            continue
        pairs[place] = GraphPair(
            *place,
            integer(micro_steps),
            integer(node_count),
            0,
            tuple(counts),
            integer(worst or 0, 0, GRADES - 1),
            overflow_counts=overflows.get(graph, ()),
        )
    return tuple(pairs[place] for place in sorted(pairs))


def _read_overflows(connection: sqlite3.Connection) -> dict[int, tuple[int, ...]]:
    """Nodes per overflow level, 0 at none, of each graph in which any overflows."""
    result: dict[int, list[int]] = {}
    for graph, level, count in connection.execute(
        "SELECT graph_id, overflow, count(*) FROM node WHERE overflow IS NOT NULL GROUP BY 1, 2"
    ):
        result.setdefault(graph, [0] * 4)[integer(level, 1, 3)] = integer(count, 0, MAX_NODE)
    return {graph: tuple(counts) for graph, counts in result.items()}
