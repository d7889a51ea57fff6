"""From two rank directories to a verdict on every node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from msprobe_builder.config import DEFAULT_OPTIONS, BuildOptions
from msprobe_builder.diagnostics import Diagnostic, about
from msprobe_builder.dump.read import Dump, read_dump
from msprobe_builder.errors import BuildError
from msprobe_builder.graph.parameter_table import ParameterTable, order_parameters
from msprobe_builder.graph.tree import Tree, build_tree
from msprobe_builder.match.choose import match_nodes
from msprobe_builder.metrics.comparison import STATISTIC_METRICS, Comparisons, Metric
from msprobe_builder.metrics.grading import (
    STATISTICS_PROFILE,
    Grade,
    collection_errors,
    grades,
    node_errors,
)
from msprobe_builder.metrics.pairing import Pairs, pair_tensors
from msprobe_builder.metrics.statistics import compare_statistics
from msprobe_builder.result import Graph, PairResult
from msprobe_builder.texts import Texts

_TASKS = ("statistics",)

# Called with the name of the stage that begins.
Report = Callable[[str], None]


@dataclass(frozen=True)
class PairJob:
    """One step and rank to build."""

    step: int
    rank: int
    npu: Path
    bench: Path | None
    options: BuildOptions = DEFAULT_OPTIONS


@dataclass(frozen=True)
class _Side:
    dump: Dump
    tree: Tree
    table: ParameterTable


def build_pair(job: PairJob, report: Report) -> PairResult:
    """Build or compare one step and rank; raises BuildError when a dump cannot be used."""
    texts = Texts()
    diagnostics: list[Diagnostic] = []
    npu = _read_side(job, 0, job.npu, texts, diagnostics, report)
    if job.bench is None:
        return PairResult(job.step, job.rank, texts, _ungraded(npu), None, None, None, diagnostics)
    bench = _read_side(job, 1, job.bench, texts, diagnostics, report)
    if npu.dump.task != bench.dump.task:
        raise BuildError(
            f"{job.npu} is a dump of task {npu.dump.task} and {job.bench} one of task "
            f"{bench.dump.task}; compare dumps of the same task."
        )
    report("match")
    matching, found = match_nodes(npu, bench, job.options, texts, step=job.step, rank=job.rank)
    diagnostics += [one.at(step=job.step, rank=job.rank) for one in found]
    report("measure")
    pairs = pair_tensors(npu.table, bench.table, matching.npu)
    comparisons = _statistics(npu.table, bench.table, pairs, texts)
    error = node_errors(npu.tree, npu.table, matching.npu, pairs, comparisons.error)
    error = collection_errors(npu.tree, matching.npu, error)
    npu_graph = Graph(
        npu.dump,
        npu.tree,
        npu.table,
        error,
        grades(error, matching.npu, STATISTICS_PROFILE),
        np.zeros(len(npu.tree), dtype=np.int64),
    )
    bench_graph = _ungraded(bench)
    bench_graph.grade[matching.bench < 0] = Grade.UNMATCHED
    return PairResult(
        job.step, job.rank, texts, npu_graph, bench_graph, matching, comparisons, diagnostics
    )


def _read_side(
    job: PairJob,
    side: int,
    directory: Path,
    texts: Texts,
    diagnostics: list[Diagnostic],
    report: Report,
) -> _Side:
    report("read npu" if side == 0 else "read bench")
    dump = read_dump(directory, texts)
    if dump.task not in _TASKS:
        raise BuildError(
            f"{directory / 'dump.json'} is of task '{dump.task}'; "
            f"this version builds dumps of task {', '.join(_TASKS)}."
        )
    tree, found = build_tree(dump)
    found += about(
        "warning",
        "malformed_record",
        dump.malformed,
        "Records in dump.json are no objects or appear twice; they were left out.",
    )
    diagnostics += [one.at(side=side, step=job.step, rank=job.rank) for one in found]
    return _Side(dump, tree, order_parameters(tree, dump.parameters))


def _statistics(
    npu: ParameterTable, bench: ParameterTable, pairs: Pairs, texts: Texts
) -> Comparisons:
    errors = compare_statistics(npu, bench, pairs, texts)
    values = [*errors.diff, *errors.relative]
    known = [*~errors.unknown, *~errors.unknown]
    n, b = npu.requires_grad[pairs.npu], bench.requires_grad[pairs.bench]
    return Comparisons(
        pairs=pairs,
        metrics={
            name: Metric(value, is_known)
            for name, value, is_known in zip(STATISTIC_METRICS, values, known, strict=True)
        },
        error=errors.worst,
        requires_grad_equal=np.where((n < 0) | (b < 0), -1, (n == b).astype(np.int64)),
    )


def _ungraded(side: _Side) -> Graph:
    size = len(side.tree)
    return Graph(
        side.dump,
        side.tree,
        side.table,
        np.full(size, np.nan),
        np.full(size, Grade.UNGRADED, dtype=np.int64),
        np.zeros(size, dtype=np.int64),
    )
