"""The unit of work: one step and rank, from its dumps to a database of its own."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np

from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.base.errors import BuildError
from msprobe_builder.database.connection import store
from msprobe_builder.database.write.pair import create, write_meta, write_pair
from msprobe_builder.database.write.verdict import write_judgement
from msprobe_builder.dump.task import Task
from msprobe_builder.facts.fact import fact
from msprobe_builder.metrics.grading import PROFILES
from msprobe_builder.metrics.result import Graph, PairResult
from msprobe_builder.pipeline.compare import PairJob, Report, build_pair
from msprobe_builder.pipeline.kept import Keeper
from msprobe_builder.verdict.judge import judge_pair


def store_pair(job: PairJob, shard: Path, report: Report, keeper: Keeper) -> None:
    """Build one step and rank into a database of its own; what an executor runs."""
    result = replace(build_pair(job, report, keeper), inputs=job.inputs)
    if job.options.overflow_check:
        result = _with_overflow(result)
    judgement = judge_pair(result, job.options.judge)
    report("store")
    if job.export_to is not None:
        from msprobe_builder.pipeline.merged_export import export_pair

        export_pair(job, result)
    try:
        with closing(create(shard, PROFILES[result.task])) as connection:
            if _is_checked_alone(result):
                from msprobe_builder.pipeline.one_run import store_evidence

                store_evidence(connection, result)
            write_pair(connection, result)
            if judgement is not None:
                write_judgement(connection, judgement, len(result.npu.tree))
            write_meta(connection, {"task": result.task.value})
            store(connection)
    except sqlite3.Error as error:
        raise BuildError(
            f"Cannot write the database into {shard.parent.parent}: {error}."
        ) from error


def _is_checked_alone(result: PairResult) -> bool:
    """Whether it is a rank of a run without a reference, with numbers."""
    is_alone = result.bench is None and result.npu.provenance is None
    return is_alone and result.task is not Task.STRUCTURE


def _with_overflow(result: PairResult) -> PairResult:
    """The same result with the overflow levels of both sides."""
    from msprobe_builder.overflow.check import check_overflow

    diagnostics = list(result.diagnostics)
    graphs: list[Graph | None] = []
    for side, graph in enumerate((result.npu, result.bench)):
        if graph is None:
            graphs.append(None)
            continue
        found = check_overflow(graph.tree, graph.table, result.texts, result.rank)
        graphs.append(replace(graph, overflow=found.level, overflow_rows=found.rows))
        if found.first >= 0:
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
