"""What a report says, read from a database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from msprobe_builder.base.bands import Band
from msprobe_builder.base.codes import SIDES
from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.database.read.counts import GraphCounts, read_diagnostics, read_graph_counts
from msprobe_builder.database.read.graphs import NPU, Graph, other_side, read_graphs
from msprobe_builder.database.read.lists import (
    ReasonCount,
    UnmatchedNode,
    overflowing_nodes,
    read_reasons,
    read_unmatched,
    worst_nodes,
)
from msprobe_builder.database.read.meta import read_bands, read_meta
from msprobe_builder.database.read.nodes import NodeRecord, read_node
from msprobe_builder.database.read.parameters import ParameterRow
from msprobe_builder.database.read.verdict import Verdict, read_verdict

_DIAGNOSTICS = 200


@dataclass(frozen=True)
class Finding:
    """One node with its place and its tensors; ``partner`` is a name, empty without one."""

    side: str
    step: int
    rank: int
    node: NodeRecord
    partner: str
    rows: list[ParameterRow]  # its tensors as ``npu``, whatever side it is on


@dataclass(frozen=True)
class Content:
    """Everything a report shows."""

    meta: dict[str, str]
    bands: tuple[Band, ...]
    places: list[GraphCounts]
    worst: list[Finding]
    overflowing: list[Finding]
    reasons: list[ReasonCount]
    unmatched: list[UnmatchedNode]
    diagnostics: list[Diagnostic]
    verdict: Verdict | None


def read_report(connection: sqlite3.Connection, nodes: int) -> Content:
    """The content of a report with at most ``nodes`` nodes of each kind."""
    return Content(
        meta=read_meta(connection),
        bands=read_bands(connection),
        places=read_graph_counts(connection),
        worst=_findings(connection, worst_nodes(connection, nodes)),
        overflowing=_findings(connection, overflowing_nodes(connection, nodes)),
        reasons=read_reasons(connection),
        unmatched=read_unmatched(connection, 5 * nodes),
        diagnostics=read_diagnostics(connection, _DIAGNOSTICS),
        verdict=read_verdict(connection),
    )


def _findings(connection: sqlite3.Connection, nodes: Iterable[tuple[int, int]]) -> list[Finding]:
    graphs = {graph.graph_id: graph for graph in read_graphs(connection)}
    return [_finding(connection, graphs[graph], node) for node, graph in nodes]


def _finding(connection: sqlite3.Connection, graph: Graph, node: int) -> Finding:
    detail = read_node(connection, graph, other_side(connection, graph), node)
    own, partner = detail.npu, detail.bench
    rows = list(detail.rows)
    if graph.side != NPU:
        own, partner = partner, own
        rows = [ParameterRow(row.bench, None) for row in rows]
    assert own is not None
    tensors = [row for row in rows if row.npu is not None and row.npu.is_tensor]
    tensors.sort(key=_ordinal)
    return Finding(
        SIDES[graph.side],
        graph.step,
        graph.rank,
        own,
        "" if partner is None else partner.name,
        tensors,
    )


def _ordinal(row: ParameterRow) -> int:
    assert row.npu is not None
    return row.npu.ordinal
