"""One node in full, with its partner: parameters side by side, stack, and why it is unmatched."""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict, deque
from dataclasses import dataclass

from tb_graph_ascend.cells import flag, integer, number, optional_integer, optional_text, text
from tb_graph_ascend.database import DamagedError
from tb_graph_ascend.problems import not_found
from tb_graph_ascend.query_skeleton import SIDE_NAMES, Graph, find_graph, read_graph
from tb_graph_ascend.query_summary import BENCH, NPU

MATCH_SOURCES = ("exact", "fuzzy", "mapping", "manual", "file")
KIND_API = 1
MAX_ORDINAL = 2**31
STATISTICS = ("max", "min", "mean", "norm")
METRICS = (
    "max_diff",
    "min_diff",
    "mean_diff",
    "norm_diff",
    "max_relative_err",
    "min_relative_err",
    "mean_relative_err",
    "norm_relative_err",
    "cosine",
    "euclidean_distance",
    "max_abs_err",
    "max_elementwise_relative_err",
    "one_thousandth_ratio",
    "five_thousandths_ratio",
)
PARTNER_QUERIES = (
    "SELECT bench_node, source FROM match WHERE npu_node = ?",
    "SELECT npu_node, source FROM match WHERE bench_node = ?",
)
# Inputs, parameters, outputs, gradients of parameters: the order in which a module computes.
SECTION_ORDER = (0, 2, 1, 3)
LIBRARY = re.compile(r"(^|/)(site|dist)-packages/|(^|/)lib(64)?/python3[^/]*/|^<(frozen|string)")


@dataclass(frozen=True)
class StackFrame:
    """One frame; only ``source`` is set when the dump's entry had an unknown form."""

    file: str
    line: int
    function: str
    source: str

    @property
    def is_library(self) -> bool:
        """Whether the file belongs to an installed package or to Python itself."""
        return LIBRARY.search(self.file.replace("\\", "/")) is not None


@dataclass(frozen=True)
class Candidate:
    """The node of the other side that came nearest to being the partner."""

    index: int
    name: str


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
    match_source: str


@dataclass(frozen=True)
class Parameter:
    """A tensor, or with ``value`` anything else that was passed or returned."""

    ordinal: int
    section: int
    name: str
    type: str
    dtype: str = ""
    shape: str = ""
    statistics: tuple[float | None, ...] = (None,) * len(STATISTICS)
    requires_grad: bool | None = None
    md5: str = ""
    file: str = ""
    value: str | None = None
    overflows: bool = False


@dataclass(frozen=True)
class Comparison:
    """The error metrics of a pair of tensors; ``metrics`` in the order of METRICS."""

    npu_ordinal: int
    bench_ordinal: int
    metrics: tuple[float | None, ...]
    md5_equal: bool | None
    requires_grad_equal: bool | None
    error: float | None
    note: str


@dataclass(frozen=True)
class ParameterRow:
    """A parameter of both sides, or of the one that has it."""

    npu: Parameter | None
    bench: Parameter | None
    comparison: Comparison | None = None


@dataclass(frozen=True)
class NodeDetail:
    """Two matched nodes, or one that has no partner."""

    npu: NodeRecord | None
    bench: NodeRecord | None
    rows: tuple[ParameterRow, ...]


def read_node(
    connection: sqlite3.Connection, step: int, rank: int, side: int, index: int
) -> NodeDetail:
    """The node at ``index`` of one side and its partner on the other."""
    graph = read_graph(connection, step, rank, side)
    if index >= graph.node_count:
        raise not_found(
            "unknown_node",
            f"There is no node {index}: the graph of step {step}, rank {rank} on the"
            f" {SIDE_NAMES[side]} side has {graph.node_count} nodes.",
            "Load the graph again; its nodes are numbered from 0.",
        )
    other = find_graph(connection, step, rank, BENCH if side == NPU else NPU)
    node = graph.first_node + index
    match = connection.execute(PARTNER_QUERIES[side], (node,)).fetchone()
    source = "" if match is None else MATCH_SOURCES[integer(match[1], 0, len(MATCH_SOURCES) - 1)]
    own_record = _read_record(connection, graph, other, node, source)
    own_parameters = _read_parameters(connection, node)
    partner, partner_record, partner_parameters = None, None, []
    if match is not None and other is not None:
        partner = integer(match[0], other.first_node, other.last_node)
        partner_record = _read_record(connection, other, graph, partner, source)
        partner_parameters = _read_parameters(connection, partner)
    if side == NPU:
        comparisons = _read_comparisons(connection, node)
        rows = pair_parameters(own_parameters, partner_parameters, comparisons)
        return NodeDetail(own_record, partner_record, tuple(rows))
    comparisons = _read_comparisons(connection, partner)
    rows = pair_parameters(partner_parameters, own_parameters, comparisons)
    return NodeDetail(partner_record, own_record, tuple(rows))


def node_name(kind: int, stem: str, direction: int, call: int) -> str:
    """The name in the dump: an API counts its calls before the direction, a module after it."""
    if direction == 0:
        return stem
    word = ("forward", "backward")[direction - 1]
    return f"{stem}.{call}.{word}" if kind == KIND_API else f"{stem}.{word}.{call}"


def pair_parameters(
    npu: list[Parameter], bench: list[Parameter], comparisons: list[Comparison]
) -> list[ParameterRow]:
    """Pairs that were compared, then equal names of a section, then what one side has alone."""
    npu_left = {parameter.ordinal: parameter for parameter in npu}
    bench_left = {parameter.ordinal: parameter for parameter in bench}
    rows: list[ParameterRow] = []
    for comparison in comparisons:
        if comparison.npu_ordinal in npu_left and comparison.bench_ordinal in bench_left:
            one = npu_left.pop(comparison.npu_ordinal)
            rows.append(ParameterRow(one, bench_left.pop(comparison.bench_ordinal), comparison))
    by_name: dict[tuple[int, str], deque[Parameter]] = defaultdict(deque)
    for parameter in bench_left.values():
        by_name[parameter.section, parameter.name].append(parameter)
    for parameter in npu_left.values():
        same = by_name[parameter.section, parameter.name]
        rows.append(ParameterRow(parameter, same.popleft() if same else None))
    rows += [ParameterRow(None, parameter) for left in by_name.values() for parameter in left]
    return sorted(rows, key=_row_order)


def _row_order(row: ParameterRow) -> tuple[int, int, bool]:
    parameter = row.npu or row.bench
    assert parameter is not None
    return SECTION_ORDER.index(parameter.section), parameter.ordinal, row.npu is None


def _read_record(
    connection: sqlite3.Connection, graph: Graph, other: Graph | None, node: int, source: str
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
        near = integer(near, other.first_node, other.last_node)
        name, _ = _read_name(connection, near)
        candidate = Candidate(near - other.first_node, name)
    name, _ = _read_name(connection, node)
    return NodeRecord(
        index=node - graph.first_node,
        name=name,
        path=_read_path(connection, graph, parent, node),
        kind=integer(kind, 0, 2),
        micro_step=integer(micro_step),
        is_recompute=flag(recompute) is True,
        error=number(error),
        grade=integer(grade, 0, 6),
        overflow=optional_integer(overflow, 1, 3) or 0,
        stack=_read_stack(connection, stack),
        unmatched_reason=text(reason),
        unmatched_detail=text(detail),
        candidate=candidate,
        match_source=source,
    )


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
    call = optional_integer(call) or 0
    name = node_name(integer(kind, 0, 2), text(stem), integer(direction, 0, 2), call)
    return name, parent


def _read_path(
    connection: sqlite3.Connection, graph: Graph, parent: object, node: int
) -> tuple[str, ...]:
    """Names from the root down; a parent comes before its children, so this ends."""
    names: list[str] = []
    above = optional_integer(parent, graph.first_node, node - 1)
    while above is not None:
        name, next_above = _read_name(connection, above)
        names.append(name)
        above = optional_integer(next_above, graph.first_node, above - 1)
    return tuple(reversed(names))


def _read_stack(connection: sqlite3.Connection, stack_id: object) -> tuple[StackFrame, ...]:
    rows = connection.execute(
        "SELECT file.value, line, function.value, source.value"
        " FROM stack JOIN frame USING (frame_id)"
        " LEFT JOIN text AS file ON file.text_id = file_id"
        " LEFT JOIN text AS function ON function.text_id = function_id"
        " LEFT JOIN text AS source ON source.text_id = source_id"
        " WHERE stack_id = ? ORDER BY depth",
        (stack_id,),
    )
    return tuple(
        StackFrame(text(file), optional_integer(line) or 0, text(function), text(source))
        for file, line, function, source in rows
    )


def _read_parameters(connection: sqlite3.Connection, node: int) -> list[Parameter]:
    """Tensors and other arguments of a node in the order of its record."""
    overflowing = connection.execute(
        "SELECT ordinal FROM overflow_parameter WHERE node_id = ?", (node,)
    )
    bad = {ordinal for (ordinal,) in overflowing}
    tensors = connection.execute(
        "SELECT ordinal, section, name.value, type.value, dtype.value, shape.value,"
        " requires_grad, md5, file, nan_flags, max, min, mean, norm FROM tensor"
        " LEFT JOIN text AS name ON name.text_id = name_id"
        " LEFT JOIN text AS type ON type.text_id = type_id"
        " LEFT JOIN text AS dtype ON dtype.text_id = dtype_id"
        " LEFT JOIN text AS shape ON shape.text_id = shape_id"
        " WHERE node_id = ?",
        (node,),
    )
    found = [
        Parameter(
            ordinal=integer(ordinal, 0, MAX_ORDINAL),
            section=integer(section, 0, 3),
            name=text(name),
            type=text(kind),
            dtype=text(dtype),
            shape=text(shape),
            statistics=_numbers(statistics, nan_flags),
            requires_grad=flag(requires_grad),
            md5=text(md5),
            file=text(file),
            overflows=ordinal in bad,
        )
        for ordinal, section, name, kind, dtype, shape, requires_grad, md5, file, nan_flags,
        *statistics in tensors
    ]  # fmt: skip
    arguments = connection.execute(
        "SELECT ordinal, section, name.value, type.value, value.value FROM argument"
        " LEFT JOIN text AS name ON name.text_id = name_id"
        " LEFT JOIN text AS type ON type.text_id = type_id"
        " LEFT JOIN text AS value ON value.text_id = value_id"
        " WHERE node_id = ?",
        (node,),
    )
    found += [
        Parameter(
            ordinal=integer(ordinal, 0, MAX_ORDINAL),
            section=integer(section, 0, 3),
            name=text(name),
            type=text(kind),
            value=optional_text(value),
            overflows=ordinal in bad,
        )
        for ordinal, section, name, kind, value in arguments
    ]
    return sorted(found, key=lambda parameter: parameter.ordinal)


def _read_comparisons(connection: sqlite3.Connection, npu_node: int | None) -> list[Comparison]:
    rows = connection.execute(
        "SELECT npu_ordinal, bench_ordinal, md5_equal, requires_grad_equal,"  # noqa: S608 - METRICS
        " error, nan_flags,"
        f" note.value, {', '.join(METRICS)} FROM comparison"
        " LEFT JOIN text AS note ON note.text_id = note_id"
        " WHERE npu_node = ? ORDER BY npu_ordinal",
        (npu_node,),
    )
    return [
        Comparison(
            npu_ordinal=integer(npu_ordinal, 0, MAX_ORDINAL),
            bench_ordinal=integer(bench_ordinal, 0, MAX_ORDINAL),
            metrics=_numbers(metrics, nan_flags),
            md5_equal=flag(md5_equal),
            requires_grad_equal=flag(requires_grad_equal),
            error=number(error),
            note=text(note),
        )
        for npu_ordinal, bench_ordinal, md5_equal, requires_grad_equal, error, nan_flags, note,
        *metrics in rows
    ]  # fmt: skip


def _numbers(values: list[object], nan_flags: object) -> tuple[float | None, ...]:
    bits = integer(nan_flags)
    return tuple(number(value, bits >> bit & 1) for bit, value in enumerate(values))
