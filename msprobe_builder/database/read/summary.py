"""What a file holds: its origin, its graphs, its grades and what the build noticed."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from msprobe_builder.base.bands import Band
from msprobe_builder.base.codes import SIDES, Grade
from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.database.read.cells import INT32, MAX_NODE, integer, text
from msprobe_builder.database.read.configuration import Configuration, read_configuration
from msprobe_builder.database.read.counts import GraphCounts, read_diagnostics, read_graph_counts
from msprobe_builder.database.read.edits import EditState, read_edit_state
from msprobe_builder.database.read.graphs import read_graphs
from msprobe_builder.database.read.groups import STANDING
from msprobe_builder.database.read.meta import read_bands, read_meta
from msprobe_builder.database.read.verdict import Suspect, Verdict, read_verdict
from msprobe_builder.facts.fact import decode
from msprobe_builder.facts.wording import tell

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
    automatic: int = 0  # matches by evidence that nobody has confirmed
    groups: int = 0
    npu_loss: float | None = None  # NaN where it is, None where none was recorded
    bench_loss: float | None = None


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
    configuration: Configuration | None

    @property
    def is_comparison(self) -> bool:
        """Whether there is a reference run to compare with."""
        return self.meta.get("kind") == "compare"


def read_summary(connection: sqlite3.Connection) -> Summary:
    """Cheap whatever the number of nodes: counts come from the roots' rollups."""
    verdict = read_verdict(connection)
    failed = connection.execute(
        "SELECT step, rank, message FROM diagnostic WHERE code = 'rank_failed'"
        " AND step IS NOT NULL AND rank IS NOT NULL ORDER BY step, rank"
    )
    return Summary(
        read_meta(connection),
        _read_graphs(connection),
        read_bands(connection),
        tuple(read_diagnostics(connection, MAX_DIAGNOSTICS)),
        tuple(
            (integer(step), integer(rank), tell(decode(text(why)))) for step, rank, why in failed
        ),
        read_edit_state(connection),
        verdict,
        _suspect_nodes(connection, verdict),
        read_configuration(connection),
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
    overflows = _read_overflows(connection)
    automatic = _count_per_graph(connection, _AUTOMATIC)
    groups = _count_per_graph(connection, _GROUPS)
    found: dict[tuple[int, int], list[GraphCounts | None]] = {}
    for graph in read_graph_counts(connection):
        found.setdefault((graph.step, graph.rank), [None, None])[graph.side] = graph
    pairs = []
    for (step, rank), (npu, bench) in sorted(found.items()):
        one = npu or bench
        assert one is not None
        pairs.append(
            GraphPair(
                step,
                rank,
                one.micro_steps,
                npu.nodes if npu else 0,
                bench.nodes if bench else 0,
                npu.grades if npu else (),
                npu.worst if npu else 0,
                bench.grades[Grade.UNMATCHED] if bench else 0,
                overflows.get(npu.graph_id, ()) if npu else (),
                overflows.get(bench.graph_id, ()) if bench else (),
                automatic.get(npu.graph_id, 0) if npu else 0,
                groups.get(npu.graph_id, 0) if npu else 0,
                npu.loss if npu else None,
                bench.loss if bench else None,
            )
        )
    return tuple(pairs)


# Without either nothing is read but an empty index or table.
_AUTOMATIC = (
    "SELECT node.graph_id, count(*) FROM match JOIN node ON node_id = npu_node WHERE source = 5"
    " GROUP BY 1"
)
_GROUPS = f"SELECT graph_id, count(*) FROM call_group WHERE {STANDING} GROUP BY 1"


def _count_per_graph(connection: sqlite3.Connection, query: str) -> dict[int, int]:
    return {
        integer(graph, 0, MAX_NODE): integer(count, 0, MAX_NODE)
        for graph, count in connection.execute(query)
    }


def _read_overflows(connection: sqlite3.Connection) -> dict[int, tuple[int, ...]]:
    """Nodes per overflow level, 0 at none, of each graph in which any overflows."""
    result: dict[int, list[int]] = {}
    for graph, level, count in connection.execute(
        "SELECT graph_id, overflow, count(*) FROM node WHERE overflow IS NOT NULL GROUP BY 1, 2"
    ):
        result.setdefault(graph, [0] * 4)[integer(level, 1, 3)] = integer(count, 0, INT32)
    return {graph: tuple(counts) for graph, counts in result.items()}
