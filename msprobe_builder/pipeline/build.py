"""The build: discover, run every step and rank, gather, publish."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.base.memory import peak_memory
from msprobe_builder.base.options import CPU
from msprobe_builder.base.publish import (
    file_name,
    free_name,
    published,
    remove_left_overs,
    reserve,
)
from msprobe_builder.dump.discover import DumpTree, discover
from msprobe_builder.dump.source import Place
from msprobe_builder.facts.fact import Facts, fact
from msprobe_builder.facts.wording import tell
from msprobe_builder.match.choose import check_files, unused_pairs
from msprobe_builder.pipeline.compare import PairJob
from msprobe_builder.pipeline.config import BuildConfig
from msprobe_builder.pipeline.configurations import compared_configurations
from msprobe_builder.pipeline.early import joining_early
from msprobe_builder.pipeline.executors.attempt import Outcome
from msprobe_builder.pipeline.executors.run import failed_ranks, failures, run_jobs
from msprobe_builder.pipeline.jobs import pair_up, pair_up_replicas, with_noise
from msprobe_builder.pipeline.join import gather, of_one_task
from msprobe_builder.pipeline.progress import Progress
from msprobe_builder.pipeline.shards import (
    finished_shards,
    passing_name,
    request_name,
    shard_folder,
)
from msprobe_builder.pipeline.store import store_pair as store_pair

if TYPE_CHECKING:
    from msprobe_builder.pipeline.append import Base


@dataclass(frozen=True)
class BuildResult:
    """What came out of a build."""

    path: Path
    npu_nodes: int
    bench_nodes: int
    matched: int
    by_evidence: int  # of these, those that were not matched by a rule or a person
    bench_grouped: int  # bench nodes without a partner that are compared as part of a group
    aligned: Facts  # what automatic matching did; empty where it did nothing
    grades: dict[str, int]  # npu nodes per grade
    diagnostics: list[Diagnostic]
    failed: list[tuple[Place, str]]  # steps and ranks left out, with the reason
    seconds: float
    peak_memory: int | None  # bytes, of the largest process; None where that is not told
    file_size: int  # bytes
    exported: Path | None = None  # where the merged models were written as dumps

    @property
    def alignment(self) -> str:
        """What automatic matching did, in words."""
        return tell(self.aligned)

    @property
    def is_comparison(self) -> bool:
        """Whether two dumps were compared."""
        return self.bench_nodes > 0


def build(
    config: BuildConfig,
    output: Path | None = None,
    *,
    name: str | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    resume: bool = False,
    append_to: Path | None = None,
    quiet: bool = True,
    export_to: Path | None = None,
) -> BuildResult:
    """Build one database from the dumps that ``config`` names.

    ``name`` is the file's name in the directory ``output``; by default it carries the time.
    ``scheduler`` runs steps and ranks on a cluster (executors/cluster.py). ``resume`` goes on
    from what an interrupted build of the same request had finished, and keeps what this one
    finishes should it be interrupted. ``append_to`` is a database that is replaced by one
    with the steps and ranks it lacks, in place of a new one in ``output``. With ``export_to``
    the merged models are written as dumps below that directory as well.
    Raises BuildError with one sentence for the user; nothing is left behind then.
    """
    began = time.monotonic()
    wanted = None if name is None else file_name(name)
    check_files(config.options)
    _check_request(config, output, scheduler, resume, append_to, export_to)
    configuration = compared_configurations(config)
    jobs, left_out = _jobs(config)
    base = None
    if append_to is not None:
        from msprobe_builder.pipeline.append import open_base

        base = open_base(append_to, config)
        jobs = base.lacking(jobs)
    if base is None:
        assert output is not None
        kind = "build" if config.bench_path is None else "compare"
        output = Path(output)
        remove_left_overs(output)
        target = reserve(output, wanted or free_name(output, _timestamped(kind)))
    else:
        target, wanted = base.path, base.path.name
    ends = [target]

    def another() -> Path:
        ends.append(target.with_name(free_name(target.parent, target.name)))
        return ends[-1]

    progress = Progress(sum(job.stages for job in jobs) + 1, quiet=quiet)
    request = request_name(config) if resume or _is_worth_it(config, jobs) else passing_name()
    try:
        with (
            _exporting(export_to) as exported,
            shard_folder(target.parent, request, resume=resume) as folder,
            joining_early(folder) as joined,
        ):
            jobs = [replace(job, export_to=exported) for job in jobs]
            try:
                meanwhile = joined.take if base is None else None
                outcomes = run_jobs(
                    jobs, folder, store_pair, progress, workers, scheduler, meanwhile
                )
                outcomes = of_one_task(outcomes, None if base is None else base.task)
                failed = failures(outcomes)
                if again := _once_more(outcomes, base):
                    progress.expect(sum(job.stages for job in again.values()))
                    renewed = run_jobs(
                        [*again.values()], folder, store_pair, progress, workers, scheduler
                    )
                    for number, outcome in zip(again, renewed, strict=True):
                        if outcome.problem is None:
                            if not resume:  # which looks for what each rank found alone
                                outcomes[number].shard.unlink()
                            outcomes[number] = outcome
                progress.begin("gather")
                with (
                    nullcontext() if base is None else base.locked(),
                    published(
                        target,
                        overwrite=base is not None,
                        instead=another if wanted is None else None,
                    ) as temporary,
                ):
                    if base is not None:
                        base.copy(temporary, [outcome.job for outcome in outcomes])
                    found = left_out + failed_ranks(failed)
                    diagnostics, counted = gather(
                        temporary,
                        outcomes,
                        config,
                        found,
                        configuration,
                        keep_shards=resume,
                        joined=joined,
                    )
            except KeyboardInterrupt as error:
                raise _stopped(folder, len(jobs), resume) from error
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
        npu_nodes=counted.npu_nodes,
        bench_nodes=counted.bench_nodes,
        matched=counted.matched,
        by_evidence=counted.by_evidence,
        bench_grouped=counted.bench_grouped,
        aligned=counted.aligned,
        grades=counted.grades,
    )


def _check_request(
    config: BuildConfig,
    output: Path | None,
    scheduler: str | None,
    resume: bool,
    append_to: Path | None,
    export_to: Path | None,
) -> None:
    """Refuse what cannot go together before anything is read."""
    if (output is None) == (append_to is None):
        raise UsageError("Give either a directory for a new result or the file to append to.")
    if export_to is not None:
        from msprobe_builder.pipeline.merged_export import check_export

        check_export(config, export_to)
        if resume or append_to is not None:
            raise UsageError(
                "--export-merged writes all merged models, so it goes with neither --resume nor "
                "--append; give it alone."
            )
    if config.options.device != CPU:
        from msprobe_builder.metrics.device import check_device

        check_device(config.options.device)
    if scheduler is not None:
        from msprobe_builder.pipeline.executors.cluster import check_scheduler

        check_scheduler(scheduler)


def _jobs(config: BuildConfig) -> tuple[list[PairJob], list[Diagnostic]]:
    """One job for each step and rank, or replica, and what was left out."""
    npu = discover(config.npu_path, "npu_path")
    bench = None if config.bench_path is None else discover(config.bench_path, "bench_path")
    jobs, left_out = _paired(config, npu, bench)
    if config.noise_path is not None:
        jobs, lacking = with_noise(jobs, discover(config.noise_path, "noise_path"))
        left_out += lacking
    return jobs, left_out + unused_pairs(config.options, [(job.step, job.rank) for job in jobs])


def _paired(
    config: BuildConfig, npu: DumpTree, bench: DumpTree | None
) -> tuple[list[PairJob], list[Diagnostic]]:
    if config.npu_layout is None:
        return pair_up(npu, bench, config.options)
    from msprobe_builder.pipeline.layouts import settled_layouts

    layouts, found = settled_layouts(npu, bench, (config.npu_layout, config.bench_layout))
    jobs, left_out = pair_up_replicas(npu, bench, layouts, config.options)
    return jobs, found + left_out


def _once_more(outcomes: list[Outcome], base: Base | None) -> dict[int, PairJob]:
    """Steps and ranks to build again, with what another one has paired, by their numbers."""
    if len(outcomes) == 1 and base is None:
        return {}
    from msprobe_builder.pipeline.elsewhere import jobs_once_more

    return jobs_once_more(outcomes, None if base is None else base.path)


def _is_worth_it(config: BuildConfig, jobs: list[PairJob]) -> bool:
    """Whether something may be finished when a build is killed that could be used again."""
    sides = (config.npu_path, config.bench_path, config.noise_path)
    return len(jobs) > 1 and all(one is None or isinstance(one, Path) for one in sides)


def _stopped(folder: Path, count: int, resume: bool) -> KeyboardInterrupt:
    finished = len({tuple(path.name.split(".")[:2]) for path in finished_shards(folder)})
    if not resume or not finished:
        return KeyboardInterrupt()
    kept = fact("summary.stopped", finished=finished, count=count, folder=str(folder))
    return KeyboardInterrupt(tell(kept))


@contextmanager
def _exporting(directory: Path | None) -> Iterator[Path | None]:
    """Where jobs write merged dumps to, if they are asked for."""
    if directory is None:
        yield None
        return
    from msprobe_builder.export.merged_folder import export_folder

    with export_folder(directory) as folder:
        yield folder


def _timestamped(kind: str) -> str:
    return f"{kind}_{datetime.now().astimezone():%Y%m%d%H%M%S}.vis.db"
