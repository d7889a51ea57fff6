"""The build: discover, run every step and rank, gather, publish."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.memory import peak_memory
from msprobe_builder.base.publish import (
    file_name,
    free_name,
    published,
    remove_left_overs,
    reserve,
)
from msprobe_builder.base.version import __version__
from msprobe_builder.database.open import store
from msprobe_builder.database.read.counts import Counts, read_counts, read_diagnostics
from msprobe_builder.database.write.gather import Gatherer, finishing, task_of_shard
from msprobe_builder.database.write.pair import (
    create,
    write_diagnostics,
    write_meta,
    write_pair,
)
from msprobe_builder.database.write.verdict import write_judgement
from msprobe_builder.dump.discover import discover
from msprobe_builder.dump.source import Dumps, Place
from msprobe_builder.export.alignment import alignment_sentence
from msprobe_builder.export.merged_folder import export_folder
from msprobe_builder.match.choose import check_files, unused_pairs
from msprobe_builder.metrics.grading import PROFILES
from msprobe_builder.metrics.result import Graph, PairResult
from msprobe_builder.overflow.check import check_overflow
from msprobe_builder.pipeline.across import link_communication, settle_verdict
from msprobe_builder.pipeline.compare import PairJob, Report, build_pair
from msprobe_builder.pipeline.config import BuildConfig
from msprobe_builder.pipeline.executors.processes import (
    Outcome,
    failed_ranks,
    failures,
    remove_shards,
    run_jobs,
)
from msprobe_builder.pipeline.jobs import pair_up, pair_up_replicas, with_noise
from msprobe_builder.pipeline.kept import Keeper
from msprobe_builder.pipeline.layouts import settled_layouts
from msprobe_builder.pipeline.merged_export import check_export, export_pair
from msprobe_builder.pipeline.progress import Progress
from msprobe_builder.verdict.judgement import judge_pair


@dataclass(frozen=True)
class BuildResult:
    """What came out of a build."""

    path: Path
    npu_nodes: int
    bench_nodes: int
    matched: int
    by_evidence: int  # of these, those that were not matched by a rule or a person
    alignment: str  # one sentence on what automatic matching did; empty where it did nothing
    grades: dict[str, int]  # npu nodes per grade
    diagnostics: list[Diagnostic]
    failed: list[tuple[Place, str]]  # steps and ranks left out, with the reason
    seconds: float
    peak_memory: int | None  # bytes, of the largest process; None where that is not told
    file_size: int  # bytes
    exported: Path | None = None  # where the merged models were written as dumps

    @property
    def is_comparison(self) -> bool:
        """Whether two dumps were compared."""
        return self.bench_nodes > 0


def build(
    config: BuildConfig,
    output: Path,
    *,
    name: str | None = None,
    workers: int | None = None,
    quiet: bool = True,
    export_to: Path | None = None,
) -> BuildResult:
    """Build one database from the dumps that ``config`` names.

    ``name`` is the file's name in the directory ``output``; by default it carries the time.
    With ``export_to`` the merged models are written as dumps below that directory as well.
    Raises BuildError with one sentence for the user; nothing is left behind then.
    """
    began = time.monotonic()
    output, wanted = Path(output), None if name is None else file_name(name)
    check_files(config.options)
    if export_to is not None:
        check_export(config, export_to)
    npu = discover(config.npu_path, "npu_path")
    bench = None if config.bench_path is None else discover(config.bench_path, "bench_path")
    if config.npu_layout is None:
        jobs, left_out = pair_up(npu, bench, config.options)
    else:
        declared = config.npu_layout, config.bench_layout
        layouts, found_layouts = settled_layouts(npu, bench, declared)
        jobs, left_out = pair_up_replicas(npu, bench, layouts, config.options)
        left_out = found_layouts + left_out
    if config.noise_path is not None:
        jobs, lacking = with_noise(jobs, discover(config.noise_path, "noise_path"))
        left_out += lacking
    left_out += unused_pairs(config.options, [(job.step, job.rank) for job in jobs])
    remove_left_overs(output)
    target = reserve(output, wanted or free_name(output, _timestamped(bench is not None)))
    ends = [target]

    def another() -> Path:
        ends.append(target.with_name(free_name(target.parent, target.name)))
        return ends[-1]

    progress = Progress(sum(job.stages for job in jobs) + 1, quiet=quiet)
    try:
        with (
            _exporting(export_to) as folder,
            published(target, instead=another if wanted is None else None) as temporary,
        ):
            jobs = [replace(job, export_to=folder) for job in jobs]
            try:
                outcomes = _of_one_task(run_jobs(jobs, temporary, store_pair, progress, workers))
                failed = failures(outcomes)
                progress.begin("gather")
                found = left_out + failed_ranks(failed)
                is_complete = not failed and not any(one.code == "missing_rank" for one in found)
                diagnostics, counts = _gather(temporary, outcomes, config, found, is_complete)
            finally:
                remove_shards(temporary, len(jobs))
    except (OSError, sqlite3.Error) as error:
        raise BuildError(f"Cannot write {target}: {error}.") from error
    finally:
        progress.close()
    target = ends[-1]
    return BuildResult(
        path=target,
        diagnostics=diagnostics,
        failed=failed,
        seconds=time.monotonic() - began,
        peak_memory=peak_memory(),
        file_size=target.stat().st_size,
        exported=export_to,
        npu_nodes=counts.npu_nodes,
        bench_nodes=counts.bench_nodes,
        matched=counts.matched,
        by_evidence=counts.by_evidence,
        alignment=counts.alignment,
        grades=counts.grades,
    )


@contextmanager
def _exporting(directory: Path | None) -> Iterator[Path | None]:
    """Where jobs write merged dumps to, if they are asked for."""
    if directory is None:
        yield None
        return
    with export_folder(directory) as folder:
        yield folder


def store_pair(job: PairJob, shard: Path, report: Report, keeper: Keeper) -> None:
    """Build one step and rank into a database of its own; the unit of work of an executor."""
    result = build_pair(job, report, keeper)
    if job.options.overflow_check:
        result = _with_overflow(result)
    judgement = judge_pair(result)
    report("store")
    export_pair(job, result)
    connection = create(shard, PROFILES[result.task])
    try:
        write_pair(connection, result)
        if judgement is not None:
            write_judgement(connection, judgement, len(result.npu.tree))
        write_meta(connection, {"task": result.task.value})
        store(connection)
    except sqlite3.Error as error:
        raise BuildError(f"Cannot write the database {shard.parent}: {error}.") from error
    finally:
        connection.close()


def _of_one_task(outcomes: list[Outcome]) -> list[Outcome]:
    """A database has one grading profile: ranks of another task than the first are left out."""
    task = None
    result = []
    for outcome in outcomes:
        if outcome.problem is None:
            own = task_of_shard(outcome.shard)
            task = task or own
            if own != task:
                outcome.shard.unlink()
                problem = (
                    f"{outcome.job.npu} is a dump of task {own}, the first one is of task {task}; "
                    "build them apart."
                )
                outcome = replace(outcome, problem=problem)
        result.append(outcome)
    return result


def _with_overflow(result: PairResult) -> PairResult:
    """The same result with the overflow levels of both sides."""
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
                "Calls overflow; the subject is the first of them.",
                graph.tree.names[found.first],
                int(np.count_nonzero(found.level)),
            )
            diagnostics.append(first.at(side=side, step=result.step, rank=result.rank))
    npu, bench = graphs
    assert npu is not None
    return replace(result, npu=npu, bench=bench, diagnostics=diagnostics)


def _timestamped(is_comparison: bool) -> str:
    kind = "compare" if is_comparison else "build"
    return f"{kind}_{datetime.now().astimezone():%Y%m%d%H%M%S}.vis.db"


def _gather(
    temporary: Path,
    outcomes: list[Outcome],
    config: BuildConfig,
    found: list[Diagnostic],
    is_complete: bool,
) -> tuple[list[Diagnostic], Counts]:
    """Join all shards into the first one, which becomes the database."""
    done = [outcome for outcome in outcomes if outcome.problem is None]
    done[0].shard.rename(temporary)
    with finishing(temporary) as connection:
        gatherer = Gatherer(connection)
        for outcome in done[1:]:
            gatherer.append(outcome.shard)
            outcome.shard.unlink()
        gatherer.begin()
        if config.npu_layout is None:  # merged models hold the calls of many ranks
            found += link_communication(connection)
        settle_verdict(connection)
        write_diagnostics(connection, found)
        write_meta(
            connection,
            {
                "kind": "build" if config.bench_path is None else "compare",
                "npu_path": _named(config.npu_path),
                "bench_path": None if config.bench_path is None else _named(config.bench_path),
                "noise_path": None if config.noise_path is None else _named(config.noise_path),
                "builder_version": __version__,
                "created_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
                "overflow_checked": str(int(config.options.overflow_check)),
                "complete": str(int(is_complete)),
                "alignment": alignment_sentence(connection) or None,
            },
        )
        return read_diagnostics(connection), read_counts(connection)


def _named(dumps: Dumps) -> str:
    """What meta says of where the dumps came from."""
    return "in_memory" if isinstance(dumps, Mapping) else str(dumps)
