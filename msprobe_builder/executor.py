"""Running many steps and ranks: in this process, or in one process per core."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from msprobe_builder.compare import PairJob, Report
from msprobe_builder.errors import BuildError
from msprobe_builder.progress import Progress

STAGES = 5  # of one job: read two sides, match, measure, store

# Builds one job into a shard; must be importable by name for the worker processes.
Work = Callable[[PairJob, Path, Report], None]


@dataclass(frozen=True)
class Outcome:
    """A finished job: its shard, or why there is none."""

    job: PairJob
    shard: Path
    problem: str | None


def run_jobs(
    jobs: list[PairJob], target: Path, work: Work, progress: Progress, workers: int | None
) -> list[Outcome]:
    """Run all jobs, in their order; shards lie beside ``target`` under its name.

    A job that fails with BuildError does not stop the others. Whatever happens, no shard of a
    failed job is left.
    """
    shards = [target.with_name(f"{target.name}.{number}") for number in range(len(jobs))]
    cores = workers or _cores()
    count = min(len(jobs), cores)
    jobs = [replace(job, threads=max(1, cores // count)) for job in jobs]
    try:
        if count <= 1:
            return _run_here(jobs, shards, work, progress)
        return _run_in_pool(jobs, shards, work, progress, count)
    except BaseException:
        for shard in shards:
            _remove(shard)
        raise


def _run_here(
    jobs: list[PairJob], shards: list[Path], work: Work, progress: Progress
) -> list[Outcome]:
    outcomes = []
    for job, shard in zip(jobs, shards, strict=True):
        place = f" (step {job.step} rank {job.rank})" if len(jobs) > 1 else ""

        def report(stage: str, place: str = place) -> None:
            progress.begin(stage + place)
            progress.finish_stage()

        outcomes.append(Outcome(job, shard, _attempt(work, job, shard, report)))
    return outcomes


def _run_in_pool(
    jobs: list[PairJob], shards: list[Path], work: Work, progress: Progress, count: int
) -> list[Outcome]:
    # Workers start fresh: they inherit no locks, threads or memory of the parent.
    context = multiprocessing.get_context("spawn")
    outcomes: dict[int, Outcome] = {}
    with ProcessPoolExecutor(count, mp_context=context) as pool:
        futures = {
            pool.submit(_attempt, work, job, shard, _silent): number
            for number, (job, shard) in enumerate(zip(jobs, shards, strict=True))
        }
        for future in as_completed(futures):
            number = futures[future]
            job = jobs[number]
            try:
                problem = future.result()
            except BrokenProcessPool:
                problem = (
                    f"The process that built step {job.step} rank {job.rank} was killed, "
                    "perhaps for lack of memory; use fewer --workers."
                )
                _remove(shards[number])
            outcomes[number] = Outcome(job, shards[number], problem)
            progress.begin(f"step {job.step} rank {job.rank}")
            for _ in range(STAGES):
                progress.finish_stage()
    return [outcomes[number] for number in range(len(jobs))]


def _attempt(work: Work, job: PairJob, shard: Path, report: Report) -> str | None:
    """Why the job failed, None when it did not."""
    try:
        work(job, shard, report)
    except BuildError as error:
        _remove(shard)
        return str(error)
    except BaseException:
        _remove(shard)
        raise
    return None


def _silent(stage: str) -> None:
    """Workers do not report stages; the parent counts finished jobs."""


def _remove(path: Path) -> None:
    with suppress(FileNotFoundError):
        path.unlink()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
