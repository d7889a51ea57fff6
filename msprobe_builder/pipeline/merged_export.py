"""Merged models as dumps: written beside a database, or alone."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from msprobe_builder.base.diagnostics import Diagnostic, about
from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.base.publish import temporary_folder
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.discover import discover
from msprobe_builder.dump.source import Place
from msprobe_builder.export.merged_dump import write_dump
from msprobe_builder.export.merged_folder import (
    SIDES,
    check_target,
    export_folder,
    finished_folder,
    replica_folder,
)
from msprobe_builder.facts.fact import fact, from_plain, plain
from msprobe_builder.graph.side import Side
from msprobe_builder.merge.ranks.replica_source import ReplicaSource
from msprobe_builder.metrics.result import Graph, PairResult
from msprobe_builder.pipeline.compare import PairJob, Report, read_side
from msprobe_builder.pipeline.config import BuildConfig
from msprobe_builder.pipeline.executors.run import failed_ranks, failures, run_jobs
from msprobe_builder.pipeline.jobs import pair_up_replicas
from msprobe_builder.pipeline.kept import Keeper
from msprobe_builder.pipeline.layouts import settled_layouts
from msprobe_builder.pipeline.progress import Progress

_NO_TENSOR = fact("note.exported_without_data")


@dataclass(frozen=True)
class ExportResult:
    """What came out of an export without a database."""

    directory: Path
    dumps: dict[str, int]  # merged dumps by side
    diagnostics: list[Diagnostic]
    failed: list[tuple[Place, str]]  # steps and replicas left out, with the reason
    seconds: float


def export_merged(
    config: BuildConfig, directory: Path, *, workers: int | None = None, quiet: bool = True
) -> ExportResult:
    """Write the merged models of both sides as dumps below ``directory``, without comparing.

    Raises BuildError with one sentence for the user; nothing is left behind then.
    """
    began = time.monotonic()
    check_export(config, directory)
    assert config.npu_layout is not None
    npu = discover(config.npu_path, "npu_path")
    bench = None if config.bench_path is None else discover(config.bench_path, "bench_path")
    layouts, found = settled_layouts(npu, bench, (config.npu_layout, config.bench_layout))
    jobs, diagnostics = pair_up_replicas(npu, bench, layouts, config.options)
    diagnostics = found + diagnostics
    progress = Progress(sum(job.stages for job in jobs), quiet=quiet)
    try:
        with export_folder(directory) as folder:
            jobs = [replace(job, export_to=folder) for job in jobs]
            with temporary_folder(folder, "findings") as findings:
                outcomes = run_jobs(jobs, findings, _export_job, progress, workers)
                failed = failures(outcomes)
                diagnostics += failed_ranks(failed)
                for outcome in outcomes:
                    if outcome.problem is None:
                        diagnostics += _findings(outcome.shard)
            dumps = Counter(path.parts[-4] for path in folder.glob("*/*/*/dump.json"))
    finally:
        progress.close()
    seconds = time.monotonic() - began
    return ExportResult(directory, {**dumps}, diagnostics, failed, seconds)


def check_export(config: BuildConfig, directory: Path) -> None:
    """Raise BuildError when there is nothing to merge or no place for it."""
    if config.npu_layout is None:
        raise UsageError(
            "--export-merged needs to know how the ranks were split; "
            "add parallel_merge to compare.json."
        )
    check_target(directory)


def export_pair(job: PairJob, result: PairResult) -> None:
    """Export both sides of a step and replica, if the job asks for it."""
    for number, source in enumerate((job.npu, job.bench)):
        graph = result.bench if number else result.npu
        if graph is not None and isinstance(source, ReplicaSource):
            _export(job, number, source, graph, result.texts)


def _export_job(job: PairJob, shard: Path, report: Report, _keeper: Keeper) -> None:
    """Read and export the sides of one job, one after the other; findings go into the shard."""
    found: list[Diagnostic] = []
    for number, source in enumerate((job.npu, job.bench)):
        if not isinstance(source, ReplicaSource) or _folder(job, number, source).exists():
            continue
        texts = Texts()
        side = read_side(job, number, source, texts, found, report)
        failed = _export(job, number, source, side, texts)
        found += [
            one.at(side=number, step=job.step, rank=job.rank)
            for one in about("warning", "tensor_unreadable", failed, _NO_TENSOR)
        ]
    shard.write_text(json.dumps([_stored(one) for one in found]), encoding="utf-8")


def _findings(shard: Path) -> list[Diagnostic]:
    stored = json.loads(shard.read_text(encoding="utf-8"))
    return [Diagnostic(**one | {"said": from_plain(one["said"])[0]}) for one in stored]


def _stored(one: Diagnostic) -> dict[str, object]:
    return vars(one) | {"said": plain([one.said])}


def _folder(job: PairJob, number: int, source: ReplicaSource) -> Path:
    assert job.export_to is not None
    return replica_folder(job.export_to, number, job.step, source.replica.index)


def _export(
    job: PairJob, number: int, source: ReplicaSource, side: Side | Graph, texts: Texts
) -> list[str]:
    """Write one side; returned are the tensors that cannot be read."""
    if job.export_to is None:
        return []
    folder = _folder(job, number, source)
    if folder.exists():  # a single replica is compared with each of the other side
        return []
    try:
        with finished_folder(folder) as temporary:
            return write_dump(
                *(side.dump, side.tree, side.table, texts, temporary), side.provenance
            )
    except OSError as error:
        raise BuildError(
            f"Cannot write the merged dump of {source} ({SIDES[number]}): {error.strerror}."
        ) from error
