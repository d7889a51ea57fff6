"""Writing one step and rank into a database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from itertools import chain, repeat
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.bands import Band
from msprobe_builder.base.codes import Reason
from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.base.texts import Texts
from msprobe_builder.database.connection import connect_own
from msprobe_builder.database.late_columns import lay_out_short, require_columns
from msprobe_builder.database.write.comparisons import write_comparisons
from msprobe_builder.database.write.matching import write_groups, write_matching
from msprobe_builder.database.write.merged import write_merge
from msprobe_builder.database.write.rows import BLOCK, OrNull, clean, insert_rows
from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.dump.stack import Frame
from msprobe_builder.facts.fact import encode
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.metrics.loss import loss_of
from msprobe_builder.metrics.result import Graph, PairResult
from msprobe_builder.metrics.rollup import roll_up

_ROOT_NODE = 1
_NODE = (
    "node_id, graph_id, parent_id, subtree_end, kind, stem_id, direction, call, micro_step,"
    " is_recompute, stack_id, error, grade"
)


# Of many rows larger pages take a tenth less to fill, and a third less to copy; of few they would
# be empty.
_MANY_CALLS, _LARGE_PAGE, _SMALL_PAGE = 10_000, 16384, 4096


def create(path: Path, profile: Iterable[Band], calls: int = 0) -> sqlite3.Connection:
    """A new database with the tables and the grading profile, to be completed in the end.

    It is to hold about so many ``calls`` of a side. The file has a temporary name until it is
    complete, so nothing is lost by writing it without a journal.
    """
    connection = connect_own(path)
    connection.executescript(
        f"PRAGMA page_size = {_SMALL_PAGE if calls < _MANY_CALLS else _LARGE_PAGE};"
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;"
        # What is written is of our own making; checking a value against a list costs as much as
        # the whole row.
        "PRAGMA cache_size = -16384; PRAGMA ignore_check_constraints = ON;"
    )
    connection.execute("BEGIN")
    lay_out_short(connection)
    connection.executemany(
        "INSERT INTO grade VALUES (?, ?, ?, ?, ?)",
        [(int(band.grade), band.name, band.low, band.high, band.colour) for band in profile],
    )
    connection.executemany(
        "INSERT INTO unmatched_reason VALUES (?, ?)",
        [(int(reason), reason.name.lower()) for reason in Reason],
    )
    return connection


def write_pair(connection: sqlite3.Connection, result: PairResult) -> None:
    """Store both sides, their matches and their errors; node ids begin at 1."""
    stacks = _Stacks(result.texts)
    npu_base = _ROOT_NODE
    bench_base = npu_base + len(result.npu.tree)
    _write_graph(connection, result, result.npu, 0, npu_base, stacks)
    if result.bench is not None:
        _write_graph(connection, result, result.bench, 1, bench_base, stacks)
    if result.matching is not None:
        write_matching(connection, result.matching, npu_base, bench_base)
    if result.comparisons is not None and result.bench is not None:
        tables = result.npu.table, result.bench.table
        texts = result.texts
        write_comparisons(
            connection,
            result.comparisons,
            *tables,
            np.arange(len(result.npu.tree)) + npu_base,
            lambda note: texts.id(note) + 1,
        )
    if result.groups is not None and result.bench is not None:
        bases = npu_base, bench_base
        write_groups(
            connection, result, result.groups, bases, lambda note: result.texts.id(note) + 1
        )
    stacks.write(connection)
    write_diagnostics(connection, result.diagnostics)
    insert_rows(
        connection,
        "text",
        [range(1, len(result.texts) + 1), map(clean, result.texts.values)],
    )


def write_meta(connection: sqlite3.Connection, facts: dict[str, str | None]) -> None:
    """Store facts about the build."""
    connection.executemany(
        "INSERT OR REPLACE INTO meta VALUES (?, ?)",
        [(key, None if value is None else clean(value)) for key, value in facts.items()],
    )


def write_diagnostics(connection: sqlite3.Connection, diagnostics: Iterable[Diagnostic]) -> None:
    """Store what was noticed."""
    connection.executemany(
        "INSERT INTO diagnostic (severity, code, side, step, rank, subject, count, message)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                finding.severity,
                finding.code,
                finding.side,
                finding.step,
                finding.rank,
                None if finding.subject is None else clean(finding.subject),
                finding.count,
                clean(encode(finding.said)),
            )
            for finding in diagnostics
        ],
    )


def _write_graph(
    connection: sqlite3.Connection,
    result: PairResult,
    graph: Graph,
    side: int,
    base: int,
    stacks: _Stacks,
) -> None:
    tree, dump = graph.tree, graph.dump
    calls = tree.calls
    graph_id = side + 1
    loss = loss_of(tree, graph.table)
    connection.execute(
        "INSERT INTO graph VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            graph_id,
            side,
            result.step,
            result.rank,
            base,
            len(tree),
            tree.micro_steps,
            dump.level,
            dump.framework,
            clean(str(dump.directory)),
            None if dump.tensor_dir is None else clean(str(dump.tensor_dir)),
            result.inputs[side],
            "NaN" if loss is not None and isnan(loss) else loss,
        ),
    )
    overflow = [OrNull(graph.overflow, 0)] if graph.overflow.any() else []
    if overflow:
        require_columns(connection, "node", ["overflow"])
    insert_rows(
        connection,
        f"node ({_NODE}{', overflow' if overflow else ''})",
        [
            range(base, base + len(tree)),
            repeat(graph_id),
            OrNull(np.where(tree.parent < 0, 0, tree.parent + base), 0),
            tree.subtree_end + base,
            calls.kind,
            calls.of_stems(result.texts.id) + 1,
            calls.direction,
            OrNull(np.where(calls.direction == Direction.NONE, -1, calls.call), -1),
            tree.micro_step,
            tree.is_recompute.astype(np.int64),
            OrNull(stacks.of_nodes(graph), 0),
            graph.error,  # SQLite stores NaN as NULL
            graph.grade,
            *overflow,
        ],
    )
    insert_rows(connection, "unrecorded", [np.flatnonzero(tree.record < 0) + base])
    rollup = roll_up(tree.subtree_end, graph.grade, graph.overflow)
    insert_rows(
        connection,
        "rollup",
        [rollup.node + base, rollup.worst, OrNull(rollup.worst_overflow, 0), *rollup.counts],
    )
    _write_parameters(connection, graph, base)
    write_merge(connection, graph, graph_id, base, result.texts)
    rows = graph.overflow_rows
    insert_rows(
        connection,
        "overflow_parameter",
        [graph.table.node[rows] + base, graph.table.ordinal[rows]],
    )
    connection.executemany(
        "INSERT INTO not_finite (node_id, part, why) VALUES (?, ?, ?)",
        [(one.node + base, int(one.part), clean(encode(one.why))) for one in graph.beginnings],
    )


def _write_parameters(connection: sqlite3.Connection, graph: Graph, base: int) -> None:
    table = graph.table
    for first in range(0, len(table), BLOCK):
        rows = np.arange(first, min(first + BLOCK, len(table)))
        _write_tensors(connection, table, rows[table.is_tensor[rows]], base)
        _write_arguments(connection, table, rows[~table.is_tensor[rows]], base)


def _write_tensors(
    connection: sqlite3.Connection, table: ParameterTable, rows: NDArray[np.int64], base: int
) -> None:
    statistics = table.statistics[:, rows]
    bits = (1 << np.arange(len(statistics)))[:, None]
    is_nan = np.isnan(statistics) & ((table.missing[rows] & bits) == 0)
    columns: dict[str, Any] = {
        "node_id": table.node[rows] + base,
        "ordinal": table.ordinal[rows],
        "section": table.section[rows],
        "name_id": table.name_id[rows] + 1,
        "type_id": OrNull(table.type_id[rows] + 1, 0),
        "dtype_id": OrNull(table.dtype_id[rows] + 1, 0),
        "shape_id": OrNull(table.shape_id[rows] + 1, 0),
        "requires_grad": OrNull(table.requires_grad[rows], -1),
        **dict(zip(("max", "min", "mean", "norm"), statistics, strict=True)),
        "nan_flags": (is_nan * bits).sum(axis=0),
    }
    for name, of_row in (("md5", table.md5), ("file", table.file)):
        if of_row:
            require_columns(connection, "tensor", [name])
            columns[name] = [of_row.get(row) for row in rows.tolist()]
    if table.sketched is not None:
        require_columns(connection, "tensor", ["sketch"])
        columns["sketch"] = OrNull(table.sketched.row[rows], -1)
    insert_rows(connection, f"tensor ({', '.join(columns)})", list(columns.values()))


def _write_arguments(
    connection: sqlite3.Connection, table: ParameterTable, rows: NDArray[np.int64], base: int
) -> None:
    insert_rows(
        connection,
        "argument",
        [
            table.node[rows] + base,
            table.ordinal[rows],
            table.section[rows],
            table.name_id[rows] + 1,
            OrNull(table.type_id[rows] + 1, 0),
            OrNull(table.value_id[rows] + 1, 0),
        ],
    )


class _Stacks:
    """The distinct stacks and frames of both sides, numbered from 1."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._frames: dict[Frame, int] = {}
        self._stacks: dict[tuple[Frame, ...], int] = {}

    def of_nodes(self, graph: Graph) -> NDArray[np.int64]:
        """Stack of each node, 0 without: its own, or that of the forward call it belongs to."""
        stacks, calls = graph.dump.stacks.compact(), graph.tree.calls
        ids = [self._stacks.setdefault(stack, len(self._stacks) + 1) for stack in stacks.stacks]
        forward = np.full(len(calls.call), Direction.FORWARD, dtype=np.int8)
        first = np.zeros(len(calls.call), dtype=np.int64)
        is_back = calls.direction == Direction.BACKWARD
        found = stacks.of_calls(calls.stems, calls.stem, calls.kind, calls.direction, calls.call)
        for call, nodes in ((calls.call, is_back), (first, is_back & (calls.kind != Kind.API))):
            own = stacks.of_calls(calls.stems, calls.stem, calls.kind, forward, call)
            found = np.where((found < 0) & nodes, own, found)
        return np.array([*ids, 0])[found]

    def write(self, connection: sqlite3.Connection) -> None:
        for frame in chain.from_iterable(self._stacks):
            self._frames.setdefault(frame, len(self._frames) + 1)
        connection.executemany(
            "INSERT INTO stack VALUES (?, ?, ?)",
            (
                (stack_id, depth, self._frames[frame])
                for stack, stack_id in self._stacks.items()
                for depth, frame in enumerate(stack)
            ),
        )
        connection.executemany(
            "INSERT INTO frame VALUES (?, ?, ?, ?, ?)",
            [
                (
                    frame_id,
                    self._text_id(frame.file),
                    frame.line,
                    self._text_id(frame.function),
                    self._text_id(frame.source),
                )
                for frame, frame_id in self._frames.items()
            ],
        )

    def _text_id(self, text: str | None) -> int | None:
        return None if text is None else self._texts.id(text) + 1
