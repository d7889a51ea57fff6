"""Writing one step and rank into a database."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.bands import Band
from msprobe_builder.base.codes import METRICS, Reason, Source
from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.base.texts import Texts
from msprobe_builder.database.layout import schema_text
from msprobe_builder.database.write.merged import write_merge
from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.dump.stack import Frame
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.match.matching import Matching, Unmatched
from msprobe_builder.metrics.comparison import Comparisons
from msprobe_builder.metrics.result import Graph, PairResult
from msprobe_builder.metrics.rollup import roll_up

_ROOT_NODE = 1


def create(path: Path, profile: Iterable[Band]) -> sqlite3.Connection:
    """A new database with the schema and the grading profile.

    The file has a temporary name until it is complete, so nothing is lost by writing it
    without a journal.
    """
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;"
        # What is written is of our own making; checking a value against a list costs as much as
        # the whole row.
        "PRAGMA cache_size = -65536; PRAGMA ignore_check_constraints = ON;"
    )
    connection.executescript(schema_text())
    connection.execute("BEGIN")
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
        _write_matching(connection, result.matching, npu_base, bench_base)
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
    stacks.write(connection)
    write_diagnostics(connection, result.diagnostics)
    _insert(
        connection,
        "text",
        "?, ?",
        [range(1, len(result.texts) + 1), map(_clean, result.texts.values)],
    )


def write_meta(connection: sqlite3.Connection, facts: dict[str, str | None]) -> None:
    """Store facts about the build."""
    connection.executemany(
        "INSERT OR REPLACE INTO meta VALUES (?, ?)",
        [(key, None if value is None else _clean(value)) for key, value in facts.items()],
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
                None if finding.subject is None else _clean(finding.subject),
                finding.count,
                _clean(finding.message),
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
    graph_id = side + 1
    connection.execute(
        "INSERT INTO graph VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
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
            _clean(str(dump.directory)),
            None if dump.tensor_dir is None else _clean(str(dump.tensor_dir)),
            result.inputs[side],
        ),
    )
    _insert(
        connection,
        "node",
        "?, ?, nullif(?, 0), ?, ?, ?, ?, ?, ?, ?, nullif(?, 0), ?, ?, nullif(?, 0)",
        [
            range(base, base + len(tree)),
            repeat(graph_id),
            np.where(tree.parent < 0, 0, tree.parent + base),
            tree.subtree_end + base,
            [int(name.kind) for name in tree.parsed],
            [result.texts.id(name.stem) + 1 for name in tree.parsed],
            [int(name.direction) for name in tree.parsed],
            [name.call if name.direction else None for name in tree.parsed],
            tree.micro_step,
            tree.is_recompute.astype(np.int64),
            stacks.of_nodes(graph),
            graph.error,  # SQLite stores NaN as NULL
            graph.grade,
            graph.overflow,
        ],
    )
    _insert(connection, "unrecorded", "?", [np.flatnonzero(tree.record < 0) + base])
    rollup = roll_up(tree.subtree_end, graph.grade, graph.overflow)
    _insert(
        connection,
        "rollup",
        "?, ?, nullif(?, 0), ?, ?, ?, ?, ?, ?, ?",
        [rollup.node + base, rollup.worst, rollup.worst_overflow, *rollup.counts],
    )
    _write_parameters(connection, graph, base)
    write_merge(connection, graph, graph_id, base, result.texts)
    rows = graph.overflow_rows
    _insert(
        connection,
        "overflow_parameter",
        "?, ?",
        [graph.table.node[rows] + base, graph.table.ordinal[rows]],
    )


def _write_parameters(connection: sqlite3.Connection, graph: Graph, base: int) -> None:
    table = graph.table
    rows = np.flatnonzero(table.is_tensor)
    statistics = table.statistics[:, rows]
    bits = (1 << np.arange(len(statistics)))[:, None]
    is_nan = np.isnan(statistics) & ((table.missing[rows] & bits) == 0)
    _insert(
        connection,
        "tensor",
        "?, ?, ?, ?, nullif(?, 0), nullif(?, 0), nullif(?, 0), nullif(?, -1), ?, ?, ?, ?, ?, ?, ?",
        [
            table.node[rows] + base,
            table.ordinal[rows],
            table.section[rows],
            table.name_id[rows] + 1,
            table.type_id[rows] + 1,
            table.dtype_id[rows] + 1,
            table.shape_id[rows] + 1,
            table.requires_grad[rows],
            *statistics,
            (is_nan * bits).sum(axis=0),
            [table.md5.get(row) for row in rows.tolist()] if table.md5 else repeat(None),
            [table.file.get(row) for row in rows.tolist()] if table.file else repeat(None),
        ],
    )
    rows = np.flatnonzero(~table.is_tensor)
    _insert(
        connection,
        "argument",
        "?, ?, ?, ?, nullif(?, 0), nullif(?, 0)",
        [
            table.node[rows] + base,
            table.ordinal[rows],
            table.section[rows],
            table.name_id[rows] + 1,
            table.type_id[rows] + 1,
            table.value_id[rows] + 1,
        ],
    )


def _write_matching(
    connection: sqlite3.Connection, matching: Matching, npu_base: int, bench_base: int
) -> None:
    matched = np.flatnonzero(matching.npu >= 0)
    _insert(
        connection,
        "match (npu_node, bench_node, source)",
        "?, ?, ?",
        [matched + npu_base, matching.npu[matched] + bench_base, matching.source[matched]],
    )
    found = matched[matching.source[matched] == Source.AUTOMATIC]
    connection.executemany(
        "UPDATE match SET evidence = ?, certainty = ? WHERE npu_node = ?",
        zip(
            matching.evidence[found].tolist(),
            matching.certainty[found].tolist(),
            (found + npu_base).tolist(),
            strict=True,
        ),
    )
    _write_unmatched(connection, matching.npu_unmatched, npu_base, bench_base)
    _write_unmatched(connection, matching.bench_unmatched, bench_base, npu_base)


def _write_unmatched(
    connection: sqlite3.Connection, unmatched: Unmatched, base: int, other_base: int
) -> None:
    candidate = np.where(unmatched.candidate < 0, 0, unmatched.candidate + other_base)
    _insert(
        connection,
        "unmatched (node_id, reason, candidate_id, detail)",
        "?, ?, nullif(?, 0), ?",
        [
            unmatched.node + base,
            unmatched.reason,
            candidate,
            [None if detail is None else _clean(detail) for detail in unmatched.detail],
        ],
    )


def write_comparisons(
    connection: sqlite3.Connection,
    comparisons: Comparisons,
    npu: ParameterTable,
    bench: ParameterTable,
    npu_nodes: NDArray[np.int64],
    text_id: Callable[[str], int],
) -> None:
    """Store errors; ``npu_nodes`` are the ids of the table's nodes, ``text_id`` stores notes."""
    pairs = comparisons.pairs
    measured = [name for name in METRICS if name in comparisons.metrics]
    flags = np.zeros(len(pairs), dtype=np.int64)
    for name in measured:
        metric = comparisons.metrics[name]
        flags |= (np.isnan(metric.value) & metric.known).astype(np.int64) << METRICS.index(name)
    columns = ["npu_node", "npu_ordinal", "bench_ordinal", *measured]
    columns += ["md5_equal", "requires_grad_equal", "error", "nan_flags", "note_id"]
    values: list[Any] = [
        npu_nodes[npu.node[pairs.npu]],
        npu.ordinal[pairs.npu],
        bench.ordinal[pairs.bench],
        *(
            np.where(comparisons.metrics[name].known, comparisons.metrics[name].value, np.nan)
            for name in measured
        ),
        repeat(-1) if comparisons.md5_equal is None else comparisons.md5_equal,
        comparisons.requires_grad_equal,
        comparisons.error,
        flags,
        _note_ids(comparisons, text_id),
    ]
    places = ["?"] * (len(columns) - 5) + ["nullif(?, -1)", "nullif(?, -1)", "?", "?", "?"]
    _insert(connection, f"comparison ({', '.join(columns)})", ", ".join(places), values)


def _note_ids(comparisons: Comparisons, text_id: Callable[[str], int]) -> Iterable[int | None]:
    if not comparisons.notes:
        return repeat(None)
    ids: list[int | None] = [None] * len(comparisons.pairs)
    for position, note in comparisons.notes.items():
        ids[position] = text_id(note)
    return ids


class _Stacks:
    """The distinct stacks and frames of both sides, numbered from 1."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._frames: dict[Frame, int] = {}
        self._stacks: dict[tuple[Frame, ...], int] = {}

    def of_nodes(self, graph: Graph) -> list[int]:
        """Stack of each node, 0 without: its own, or that of the forward call it belongs to."""
        stacks = graph.dump.stacks
        ids = [self._stacks.setdefault(stack, len(self._stacks) + 1) for stack in stacks.stacks]
        of_name = stacks.of_name
        result = []
        for name, parsed in zip(graph.tree.names, graph.tree.parsed, strict=True):
            stack = of_name.get(name)
            if stack is None and parsed.direction is Direction.BACKWARD:
                stem, call = parsed.stem, parsed.call
                if parsed.kind is Kind.API:
                    stack = of_name.get(f"{stem}.{call}.forward")
                else:
                    stack = of_name.get(f"{stem}.forward.{call}", of_name.get(f"{stem}.forward.0"))
            result.append(0 if stack is None else ids[stack])
        return result

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


def _insert(connection: sqlite3.Connection, table: str, places: str, columns: list[Any]) -> None:
    """Insert rows given by columns: arrays, lists or any iterables of equal length."""
    lists = [column.tolist() if isinstance(column, np.ndarray) else column for column in columns]
    # Table and places are our own; the rows are bound.
    statement = f"INSERT INTO {table} VALUES ({places})"
    connection.executemany(statement, zip(*lists, strict=False))


def _clean(text: str) -> str:
    """Text that SQLite can hold: lone surrogates, which JSON allows, become escapes."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text
