"""Everything measured between two matched hierarchies: errors of tensors, errors of nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.diagnostics import Diagnostic
from msprobe_builder.graph.side import Side
from msprobe_builder.match.matching import Matching
from msprobe_builder.metrics.checksum import equal_checksums
from msprobe_builder.metrics.comparison import STATISTIC_METRICS, Comparisons, Metric
from msprobe_builder.metrics.grading import (
    PROFILES,
    Band,
    Evidence,
    is_broken,
    is_output,
    is_uninitialised,
    node_errors,
)
from msprobe_builder.metrics.numbers import compare_numbers
from msprobe_builder.metrics.pairing import Pairs, no_pairs, pair_tensors
from msprobe_builder.metrics.statistics import StatisticsErrors, compare_statistics
from msprobe_builder.metrics.tensor import RealData, compare_real_data
from msprobe_builder.task import Task
from msprobe_builder.texts import Texts

Float = NDArray[np.float64]
Int = NDArray[np.int64]


@dataclass(frozen=True)
class Measured:
    """The errors of pairs of tensors and of npu nodes, and the bands that grade them."""

    comparisons: Comparisons
    error: Float  # 0…1 of each npu node, NaN where there is none
    profile: tuple[Band, ...]
    diagnostics: list[Diagnostic]


def measure(
    task: Task, npu: Side, bench: Side, matching: Matching, texts: Texts, threads: int = 1
) -> Measured:
    """Compare the parameters of all matched nodes; ``threads`` read tensor files."""
    structure = task is Task.STRUCTURE
    pairs = no_pairs() if structure else pair_tensors(npu.table, bench.table, matching.npu)
    statistics = compare_statistics(npu.table, bench.table, pairs, texts)
    md5_equal = equal_checksums(npu.table, bench.table, pairs)
    metrics = _metrics(statistics)
    data = RealData({}, {}, [])
    if task is Task.TENSOR:
        data = compare_real_data(npu, bench, pairs, threads)
        metrics |= data.metrics
    error = _pair_errors(task, npu, pairs, statistics, md5_equal, data)
    notes = _unmerged(npu, bench, pairs) if task is Task.MD5 else {}
    is_open = statistics.unknown.all(axis=0) & (npu.table.numel[pairs.npu] != 0)
    open_rows = pairs.npu[list(notes)] if task is Task.MD5 else pairs.npu[is_open]
    evidence = Evidence(pairs.npu, error, open_rows)
    if task in (Task.STATISTICS, Task.MD5):
        evidence = _with_numbers(task, evidence, npu, bench, matching, texts)
    return Measured(
        Comparisons(
            pairs=pairs,
            metrics=metrics,
            error=error,
            requires_grad_equal=_equal_flags(
                npu.table.requires_grad[pairs.npu], bench.table.requires_grad[pairs.bench]
            ),
            md5_equal=md5_equal,
            notes=notes | data.notes,
        ),
        node_errors(task, npu.tree, npu.table, matching.npu, evidence),
        PROFILES[task],
        data.diagnostics,
    )


def _pair_errors(
    task: Task,
    npu: Side,
    pairs: Pairs,
    statistics: StatisticsErrors,
    md5_equal: Int,
    data: RealData,
) -> Float:
    """What each pair says of its node, 0…1."""
    if task is Task.MD5:
        error = np.where(md5_equal < 0, np.nan, 1.0 - md5_equal)
    elif task is Task.TENSOR:
        error = 1.0 - data.metrics["one_thousandth_ratio"].value
    else:
        error = statistics.worst.copy()
    if task is not Task.MD5:
        error[(is_broken(npu.table) & is_output(npu.table))[pairs.npu]] = 1.0
    error[is_uninitialised(npu.tree)[npu.table.node[pairs.npu]]] = np.nan
    return error


def _with_numbers(
    task: Task, evidence: Evidence, npu: Side, bench: Side, matching: Matching, texts: Texts
) -> Evidence:
    numbers = compare_numbers(npu.table, bench.table, matching.npu, texts)
    error = 1.0 - numbers.is_equal if task is Task.MD5 else numbers.error
    row = np.r_[evidence.row, numbers.pairs.npu]
    return Evidence(row, np.r_[evidence.error, error], evidence.unknown)


def _unmerged(npu: Side, bench: Side, pairs: Pairs) -> dict[int, str]:
    """Why pairs cannot be compared of which a merge of ranks left open too much, by position."""
    found = {}
    for name, side, rows in (("bench", bench, pairs.bench), ("npu", npu, pairs.npu)):
        if side.unknown:
            for position, row in enumerate(rows.tolist()):
                if row in side.unknown:
                    found[position] = f"unmerged: {name}, {side.unknown[row]}"
    return found


def _metrics(errors: StatisticsErrors) -> dict[str, Metric]:
    values = [*errors.diff, *errors.relative]
    known = [*~errors.unknown, *~errors.unknown]
    return {
        name: Metric(value, is_known)
        for name, value, is_known in zip(STATISTIC_METRICS, values, known, strict=True)
    }


def _equal_flags(n: Int, b: Int) -> Int:
    """-1 where either is unknown, else whether they are equal."""
    return np.where((n < 0) | (b < 0), -1, (n == b).astype(np.int64))
