"""One node in full, with its partner: parameters side by side, stack, and why it is unmatched."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from msprobe_builder.base.codes import Evidence, Source, words
from msprobe_builder.database.problems import DamagedError
from msprobe_builder.database.read.cells import (
    MAX_NODE,
    flag,
    integer,
    number,
    optional_integer,
    text,
)
from msprobe_builder.database.read.communication import CommunicationPartner, read_partners
from msprobe_builder.database.read.edits import Edit, read_history
from msprobe_builder.database.read.graphs import NPU, Graph
from msprobe_builder.database.read.groups import CallGroup, read_group_of
from msprobe_builder.database.read.names import stored_name
from msprobe_builder.database.read.parameters import (
    Parameter,
    ParameterRow,
    pair_parameters,
    read_comparisons,
    read_parameters,
)
from msprobe_builder.database.read.roles import NodeVerdict, read_node_verdict
from msprobe_builder.database.read.stacks import StackFrame, read_stack

_SOURCES = words(Source)
_EVIDENCE = {int(kind): kind.name.lower() for kind in Evidence}
_HOW = "source, author, matched_at, note, evidence, certainty"
_PARTNERS = (
    f"SELECT bench_node, {_HOW} FROM match WHERE npu_node = ?",
    f"SELECT npu_node, {_HOW} FROM match WHERE bench_node = ?",
)


@dataclass(frozen=True)
class Origin:
    """Who or what matched a node; author, time and note only of matches by hand, evidence and
    certainty only of those that were found by evidence."""

    source: str = ""
    author: str = ""
    matched_at: str = ""
    note: str = ""
    evidence: str = ""
    certainty: float | None = None


@dataclass(frozen=True)
class Candidate:
    """The node of the other side that came nearest to being the partner."""

    index: int
    name: str


@dataclass(frozen=True)
class OperatorCheck:
    """What running the operator again on what the dump holds has shown."""

    status: str
    compared: str
    times: float | None
    reason: str


@dataclass(frozen=True)
class NodeRecord:
    """A node as the detail panel shows it."""

    index: int
    name: str
    path: tuple[str, ...]  # names of the ancestors, root first
    kind: int
    micro_step: int
    is_recompute: bool
    error: float | None
    grade: int
    overflow: int
    stack: tuple[StackFrame, ...]
    unmatched_reason: str
    unmatched_detail: str
    candidate: Candidate | None
    match: Origin
    communication: tuple[CommunicationPartner, ...]
    origin_ranks: tuple[int, ...]
    operator_check: OperatorCheck | None = None


@dataclass(frozen=True)
class NodeDetail:
    """Two matched nodes, or one that has no partner."""

    npu: NodeRecord | None
    bench: NodeRecord | None
    rows: tuple[ParameterRow, ...]
    history: tuple[Edit, ...]
    verdict: NodeVerdict | None = None  # of the npu node
    group: CallGroup | None = None  # that the node belongs to


def read_node(
    connection: sqlite3.Connection,
    graph: Graph,
    other: Graph | None,
    node: int,
    *,
    with_path: bool = True,
) -> NodeDetail:
    """A node of ``graph`` and its partner in ``other``; a path costs as much as it is deep."""
    match = connection.execute(_PARTNERS[graph.side], (node,)).fetchone()
    origin = Origin()
    if match is not None:
        source = _SOURCES[integer(match[1], 0, len(_SOURCES) - 1)]
        evidence = _EVIDENCE.get(match[5], "")
        author, at, note = map(text, match[2:5])
        origin = Origin(source, author, at, note, evidence, number(match[6]))
    own_record = _read_record(connection, graph, other, node, origin, with_path)
    own_parameters = read_parameters(connection, node)
    partner, partner_record = None, None
    partner_parameters: list[Parameter] = []
    if match is not None and other is not None:
        partner = integer(match[0], other.first, other.last)
        partner_record = _read_record(connection, other, graph, partner, origin, with_path)
        partner_parameters = read_parameters(connection, partner)
    group = read_group_of(connection, node)
    if graph.side == NPU:
        comparisons = read_comparisons(connection, node)
        rows = pair_parameters(own_parameters, partner_parameters, comparisons)
        history = read_history(connection, (node, partner))
        verdict = read_node_verdict(connection, graph.first, node)
        return NodeDetail(own_record, partner_record, tuple(rows), tuple(history), verdict, group)
    comparisons = read_comparisons(connection, partner)
    rows = pair_parameters(partner_parameters, own_parameters, comparisons)
    history = read_history(connection, (partner, node))
    verdict = None
    if other is not None and partner is not None:
        verdict = read_node_verdict(connection, other.first, partner)
    return NodeDetail(partner_record, own_record, tuple(rows), tuple(history), verdict, group)


def _read_record(
    connection: sqlite3.Connection,
    graph: Graph,
    other: Graph | None,
    node: int,
    match: Origin,
    with_path: bool,
) -> NodeRecord:
    row = connection.execute(
        "SELECT parent_id, kind, micro_step, is_recompute, error, grade, overflow, stack_id,"
        " unmatched_reason.name, unmatched.detail, unmatched.candidate_id"
        " FROM node LEFT JOIN unmatched USING (node_id) LEFT JOIN unmatched_reason USING (reason)"
        " WHERE node_id = ?",
        (node,),
    ).fetchone()
    if row is None:
        raise DamagedError(f"node {node} is missing")
    parent, kind, micro_step, recompute, error, grade, overflow, stack, reason, detail, near = row
    candidate = None
    if near is not None and other is not None:
        near = integer(near, other.first, other.last)
        name, _ = _read_name(connection, near)
        candidate = Candidate(near - other.first, name)
    name, _ = _read_name(connection, node)
    return NodeRecord(
        index=node - graph.first,
        name=name,
        path=_read_path(connection, graph, parent, node) if with_path else (),
        kind=integer(kind, 0, 2),
        micro_step=integer(micro_step),
        is_recompute=flag(recompute) is True,
        error=number(error),
        grade=integer(grade, 0, 6),
        overflow=optional_integer(overflow, 1, 3) or 0,
        stack=read_stack(connection, stack),
        unmatched_reason=text(reason),
        unmatched_detail=text(detail),
        candidate=candidate,
        match=match,
        communication=read_partners(connection, node),
        origin_ranks=tuple(
            integer(rank)
            for (rank,) in connection.execute(
                "SELECT rank FROM origin WHERE node_id = ? ORDER BY rank", (node,)
            )
        ),
        operator_check=_read_check(connection, node),
    )


def _read_check(connection: sqlite3.Connection, node: int) -> OperatorCheck | None:
    row = connection.execute(
        "SELECT status, compared, times, reason FROM operator_check WHERE node_id = ?", (node,)
    ).fetchone()
    if row is None:
        return None
    return OperatorCheck(text(row[0]), text(row[1]), number(row[2]), text(row[3]))


def _read_name(connection: sqlite3.Connection, node: int) -> tuple[str, object]:
    """Name of a node, and its parent as stored."""
    row = connection.execute(
        "SELECT kind, value, direction, call, parent_id"
        " FROM node JOIN text ON text_id = stem_id WHERE node_id = ?",
        (node,),
    ).fetchone()
    if row is None:
        raise DamagedError(f"node {node} or its name is missing")
    kind, stem, direction, call, parent = row
    return stored_name(kind, stem, direction, call), parent


def _read_path(
    connection: sqlite3.Connection, graph: Graph, parent: object, node: int
) -> tuple[str, ...]:
    """Names from the root down; a parent comes before its children, so this ends."""
    names: list[str] = []
    above = optional_integer(parent, graph.first, node - 1)
    while above is not None:
        name, next_above = _read_name(connection, above)
        names.append(name)
        above = optional_integer(next_above, graph.first, above - 1)
    return tuple(reversed(names))


@dataclass(frozen=True)
class NodeState:
    """What a change of matches may change of a node."""

    grade: int
    error: float | None
    partner: int | None
    unmatched_reason: str
    source: int = 0  # Source of a matched node
    certainty: float | None = None  # of a match that evidence made


def read_node_states(connection: sqlite3.Connection, nodes: Iterable[int]) -> dict[int, NodeState]:
    """State of each of the nodes."""
    rows = connection.execute(
        "SELECT node_id, grade, error, ifnull(as_npu.bench_node, as_bench.npu_node), name,"
        " ifnull(as_npu.source, as_bench.source),"
        " ifnull(as_npu.certainty, as_bench.certainty)"
        " FROM json_each(?) AS wanted JOIN node ON node_id = wanted.value"
        " LEFT JOIN match AS as_npu ON as_npu.npu_node = node_id"
        " LEFT JOIN match AS as_bench ON as_bench.bench_node = node_id"
        " LEFT JOIN unmatched USING (node_id) LEFT JOIN unmatched_reason USING (reason)",
        (json.dumps(sorted(nodes)),),
    )
    return {
        node: NodeState(
            integer(grade, 0, 6),
            number(error),
            optional_integer(partner, 0, MAX_NODE),
            text(reason),
            optional_integer(source, 0, len(_SOURCES) - 1) or 0,
            number(certainty),
        )
        for node, grade, error, partner, reason, source, certainty in rows
    }
