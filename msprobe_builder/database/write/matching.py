"""Which node equals which, why others have no partner, and groups of calls."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from itertools import repeat

import numpy as np

from msprobe_builder.base.codes import Source
from msprobe_builder.database.late_columns import require_columns
from msprobe_builder.database.write.comparisons import insert_comparisons
from msprobe_builder.database.write.rows import OrNull, clean, insert_rows
from msprobe_builder.facts.fact import encode
from msprobe_builder.match.matching import Likely, Matching, Unmatched
from msprobe_builder.metrics.groups import GroupResults
from msprobe_builder.metrics.result import PairResult


def write_matching(
    connection: sqlite3.Connection, matching: Matching, npu_base: int, bench_base: int
) -> None:
    matched = np.flatnonzero(matching.npu >= 0)
    insert_rows(
        connection,
        "match (npu_node, bench_node, source)",
        [matched + npu_base, matching.npu[matched] + bench_base, matching.source[matched]],
    )
    found = matched[matching.source[matched] == Source.AUTOMATIC]
    if len(found):
        require_columns(connection, "match", ["evidence", "certainty"])
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
    _write_likely(connection, matching.npu_likely, npu_base, bench_base)
    _write_likely(connection, matching.bench_likely, bench_base, npu_base)


def _write_unmatched(
    connection: sqlite3.Connection, unmatched: Unmatched, base: int, other_base: int
) -> None:
    candidate = np.where(unmatched.candidate < 0, 0, unmatched.candidate + other_base)
    insert_rows(
        connection,
        "unmatched (node_id, reason, candidate_id, detail)",
        [
            unmatched.node + base,
            unmatched.reason,
            OrNull(candidate, 0),
            [None if one is None else clean(encode(one)) for one in unmatched.detail],
        ],
    )


def _write_likely(
    connection: sqlite3.Connection, likely: Likely, base: int, other_base: int
) -> None:
    first = np.r_[0, np.flatnonzero(np.diff(likely.node)) + 1] if len(likely.node) else likely.node
    begin = np.repeat(first, np.diff(np.r_[first, len(likely.node)]))
    insert_rows(
        connection,
        "likely",
        [
            likely.node + base,
            np.arange(len(likely.node)) - begin + 1,
            likely.candidate + other_base,
            likely.likelihood,
        ],
    )


def write_groups(
    connection: sqlite3.Connection,
    result: PairResult,
    found: GroupResults,
    bases: tuple[int, int],
    text_id: Callable[[str], int],
) -> None:
    """Store groups, numbered from 1; ``bases`` are the ids of the roots of both sides."""
    assert result.bench is not None
    ids = range(1, len(found.groups) + 1)
    insert_rows(
        connection,
        "call_group",
        [
            ids,
            repeat(1),
            [clean(group.operation) for group in found.groups],
            [group.certainty for group in found.groups],
            found.error,
            found.grade,
        ],
    )
    for number, group in zip(ids, found.groups, strict=True):
        members = [node + bases[0] for node in group.npu] + [
            node + bases[1] for node in group.bench
        ]
        connection.executemany(
            "INSERT INTO group_member VALUES (?, ?)", [(node, number) for node in members]
        )
    pairs = found.comparisons.pairs
    npu, bench = result.npu.table, result.bench.table
    key = {
        "call_group_id": found.owner + 1,
        "npu_node": npu.node[pairs.npu] + bases[0],
        "npu_ordinal": npu.ordinal[pairs.npu],
        "bench_node": bench.node[pairs.bench] + bases[1],
        "bench_ordinal": bench.ordinal[pairs.bench],
    }
    insert_comparisons(connection, "group_comparison", key, found.comparisons, text_id)
