"""What a report says, read from a database."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from msprobe_builder.base.bands import Band
from msprobe_builder.base.codes import SIDES
from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.database.read.around import PlaceRow, read_around
from msprobe_builder.database.read.configuration import Configuration, read_configuration
from msprobe_builder.database.read.counts import GraphCounts, read_diagnostics, read_graph_counts
from msprobe_builder.database.read.graphs import NPU, Graph, other_side, read_graphs
from msprobe_builder.database.read.groups import (
    NamedGroup,
    PlacedGroup,
    count_groups,
    name_group,
    worst_groups,
)
from msprobe_builder.database.read.lists import (
    ReasonCount,
    UnmatchedNode,
    first_wrong_node,
    overflowing_nodes,
    read_reasons,
    read_unmatched,
    worst_nodes,
)
from msprobe_builder.database.read.meta import read_bands, read_meta, side_names
from msprobe_builder.database.read.nodes import NodeRecord, read_node
from msprobe_builder.database.read.parameters import ParameterRow
from msprobe_builder.database.read.stacks import read_code
from msprobe_builder.database.read.verdict import Verdict, read_verdict
from msprobe_builder.facts.fact import has_code
from msprobe_builder.facts.words import HIDDEN

_DIAGNOSTICS = 200
_LEADS = 5
_BESIDE = 3  # siblings in the picture, on either side


@dataclass(frozen=True)
class Finding:
    """One node with its place and its tensors; ``partner`` is a name, empty without one."""

    side: str
    step: int
    rank: int
    node: NodeRecord
    partner: str
    rows: list[ParameterRow]  # its tensors as ``npu``, whatever side it is on
    arguments: list[ParameterRow]  # what was passed besides tensors, where both sides differ
    group: NamedGroup | None = None  # of calls that the node belongs to


@dataclass(frozen=True)
class Content:
    """Everything a report shows."""

    meta: dict[str, str]
    bands: tuple[Band, ...]
    places: list[GraphCounts]
    worst: list[Finding]
    overflowing: list[Finding]
    group_counts: tuple[int, int]  # groups, and npu nodes in them
    groups: list[PlacedGroup]  # the worst
    reasons: list[ReasonCount]
    unmatched: list[UnmatchedNode]
    diagnostics: list[Diagnostic]
    configuration: Configuration | None
    verdict: Verdict | None
    leads: list[Finding]  # the suspects, likeliest first, or else the first wrong node
    place: list[PlaceRow]  # where the first of them stands
    names: tuple[str, str]  # of the sides, empty where nobody named them
    code: str  # of the line that made the first suspect's call, empty where it was not recorded
    file: Path  # name of the database

    def relative(self, text: str) -> str:
        """A text with paths as seen from the folder that both runs lie in."""
        folder = _shared_folder(self.meta)
        return text.replace(folder, "") if folder else text


def read_report(connection: sqlite3.Connection, nodes: int, file: str) -> Content:
    """The content of a report on ``file`` with at most ``nodes`` nodes of each kind."""
    verdict = read_verdict(connection)
    leads = _leads(connection, verdict)
    meta = read_meta(connection)
    first = verdict.suspects[0] if verdict is not None and verdict.suspects else None
    return Content(
        meta=meta,
        bands=read_bands(connection),
        places=read_graph_counts(connection),
        worst=_findings(connection, worst_nodes(connection, nodes)),
        overflowing=_findings(connection, overflowing_nodes(connection, nodes)),
        group_counts=count_groups(connection),
        groups=worst_groups(connection, nodes),
        reasons=read_reasons(connection),
        unmatched=read_unmatched(connection, 5 * nodes),
        diagnostics=read_diagnostics(connection, _DIAGNOSTICS),
        configuration=read_configuration(connection),
        verdict=verdict,
        leads=_findings(connection, leads),
        place=read_around(connection, leads[0][0], _BESIDE) if leads else [],
        names=side_names(meta),
        code="" if first is None else read_code(connection, first.node_id, first.source),
        file=Path(file),
    )


def _shared_folder(meta: Mapping[str, str]) -> str:
    """The absolute folder, with a slash behind it, that the runs lie in; empty for none."""
    paths = [meta.get(f"{side}_path", "") for side in SIDES]
    absolute = [one for one in paths if one.startswith("/")]
    if not absolute:
        return ""
    folder = os.path.commonpath([str(PurePosixPath(one).parent) for one in absolute])
    return f"{folder}/" if len(folder) > 1 else ""


def _leads(connection: sqlite3.Connection, verdict: Verdict | None) -> list[tuple[int, int]]:
    """``(node_id, graph_id)`` of whom to look at first."""
    if verdict is not None and (verdict.conclusion == "clean" or has_code(verdict.said, HIDDEN)):
        return []  # what is in colour is rounding
    if verdict is None or not verdict.suspects:
        first = first_wrong_node(connection)
        return [] if first is None else [first]
    graphs = {
        (SIDES[graph.side], graph.step, graph.rank): graph.graph_id
        for graph in read_graphs(connection)
    }
    return [
        (one.node_id, graphs[one.side, one.step, one.rank]) for one in verdict.suspects[:_LEADS]
    ]


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
    differing = [
        row
        for row in detail.rows
        if row.npu is not None
        and row.bench is not None
        and not row.npu.is_tensor
        and row.npu.value != row.bench.value
    ]
    return Finding(
        SIDES[graph.side],
        graph.step,
        graph.rank,
        own,
        "" if partner is None else partner.name,
        tensors,
        differing,
        None if detail.group is None else name_group(connection, detail.group),
    )


def _ordinal(row: ParameterRow) -> int:
    assert row.npu is not None
    return row.npu.ordinal
