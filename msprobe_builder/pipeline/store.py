"""The unit of work: one step and rank, from its dumps to a database of its own."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np

from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.memory import give_back_pieces
from msprobe_builder.database.connection import store, store_and_go_on
from msprobe_builder.database.write.evidence import write_weights
from msprobe_builder.database.write.pair import create, write_meta, write_pair
from msprobe_builder.database.write.verdict import write_judgement
from msprobe_builder.dump.task import Task
from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.sketch_rows import sketched_rows
from msprobe_builder.graph.tree import LARGE
from msprobe_builder.metrics.comparison import Metric
from msprobe_builder.metrics.grading import PROFILES
from msprobe_builder.metrics.result import Graph, PairResult
from msprobe_builder.overflow.values import is_finite
from msprobe_builder.pipeline.compare import PairJob, Report, build_pair
from msprobe_builder.pipeline.kept import Keeper
from msprobe_builder.verdict.judge import judge_pair
from msprobe_builder.verdict.model.observations import READ
from msprobe_builder.verdict.steps.weights import weights_of


def store_pair(job: PairJob, shard: Path, report: Report, keeper: Keeper) -> None:
    """Build one step and rank into a database of its own; what an executor runs."""
    result = replace(build_pair(job, report, keeper), inputs=job.inputs)
    result = _with_overflow(result, is_told=job.options.overflow_check)
    report("store")
    if job.export_to is not None:
        from msprobe_builder.pipeline.merged_export import export_pair

        export_pair(job, result)
    try:
        calls = len(result.npu.tree)
        with closing(create(shard, PROFILES[result.task], calls)) as connection:
            if _is_checked_alone(result):
                from msprobe_builder.pipeline.one_run import store_evidence

                store_evidence(connection, result)
            elif result.bench is not None:
                if job.options.verdict:
                    _keep_weights(connection, result)
            elif result.npu.beginnings:  # of merged ranks
                from msprobe_builder.database.write.one_run import write_place

                write_place(connection, result.step, result.rank, (), 0)
            write_pair(connection, result)
            write_meta(connection, {"task": result.task.value})
            if job.options.verdict:
                store_and_go_on(connection)
                result = _without_what_is_stored(result)
                if calls >= LARGE:
                    give_back_pieces()
                judgement = judge_pair(result, frozenset(job.options.without))
                if judgement is not None:
                    write_judgement(connection, judgement, calls)
            store(connection)
    except sqlite3.Error as error:
        raise BuildError(
            f"Cannot write the database into {shard.parent.parent}: {error}."
        ) from error


def _keep_weights(connection: sqlite3.Connection, result: PairResult) -> None:
    """Store what tells, beside that of the next step, what an optimizer has done to the weights."""
    weights = weights_of(result) if result.comparisons is not None else None
    if weights is None:
        return
    assert result.bench is not None
    first = 1
    for graph, rows in ((result.npu, weights.npu), (result.bench, weights.bench)):
        kept = sketched_rows(graph.table, rows)
        write_weights(connection, graph.table, kept, weights.names, first, result.texts)
        first += len(graph.tree)


def _without_what_is_stored(result: PairResult) -> PairResult:
    """The same without large columns that no verdict reads, which takes the most memory itself."""
    nothing = np.empty(0)
    npu, bench = (
        one and replace(one, error=nothing, table=replace(one.table, sketched=None))
        for one in (result.npu, result.bench)
    )
    comparisons = result.comparisons
    if comparisons is not None:
        metrics = {
            name: replace(metric, value=metric.value.copy())  # of a block of all metrics
            for name, metric in comparisons.metrics.items()
            if name in READ
        }
        apart = comparisons.apart
        if apart is not None:
            apart = replace(apart, slices=apart.slices[:0].copy())
        comparisons = replace(
            comparisons, metrics=metrics, of_statistics=_stored, error=nothing, apart=apart
        )
    assert npu is not None
    return replace(result, npu=npu, bench=bench, comparisons=comparisons)


def _stored(_: slice) -> dict[str, Metric]:
    """No metrics any more: what they are made of, the tables with their sketches, is let go."""
    return {}


def _is_checked_alone(result: PairResult) -> bool:
    """Whether it is a rank of a run without a reference, with numbers."""
    is_alone = result.bench is None and result.npu.provenance is None
    return is_alone and result.task is not Task.STRUCTURE


def _with_overflow(result: PairResult, *, is_told: bool) -> PairResult:
    """The same result with where NaN and infinity began on both sides.

    With ``is_told`` also with the levels of all calls.
    """
    diagnostics = list(result.diagnostics)
    graphs: list[Graph | None] = []
    for side, graph in enumerate((result.npu, result.bench)):
        merged = None if graph is None else graph.provenance
        of_ranks = {} if merged is None else merged.not_finite
        if graph is None or (not is_told and is_finite(graph.table, result.texts, of_ranks)):
            graphs.append(graph)
            continue
        from msprobe_builder.overflow.check import check_overflow
        from msprobe_builder.overflow.origin import beginnings, of_merged

        found = check_overflow(graph.tree, graph.table, result.texts, result.rank, of_ranks)
        began = tuple(beginnings(graph.tree, graph.table, found, result.texts))
        if merged is not None:
            began = tuple(of_merged(began, found, graph.table, merged))
        graph = replace(graph, beginnings=began)
        if is_told:
            graph = replace(graph, overflow=found.level, overflow_rows=found.rows)
        graphs.append(graph)
        if is_told and found.first >= 0:
            first = Diagnostic(
                "warning",
                "overflow",
                fact("note.overflow"),
                graph.tree.names[found.first],
                int(np.count_nonzero(found.level)),
            )
            diagnostics.append(first.at(side=side, step=result.step, rank=result.rank))
    npu, bench = graphs
    assert npu is not None
    return replace(result, npu=npu, bench=bench, diagnostics=diagnostics)
