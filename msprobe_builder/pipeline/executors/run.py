"""Running many steps and ranks: in this process, in one per core, or on a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.base.errors import BuildError
from msprobe_builder.dump.source import Place
from msprobe_builder.facts.fact import Fact, fact, text_fact
from msprobe_builder.pipeline.compare import PairJob
from msprobe_builder.pipeline.executors.attempt import Finished, Outcome, Work, attempt
from msprobe_builder.pipeline.kept import Keeper
from msprobe_builder.pipeline.progress import Progress

# Bytes of dump.json that are read and compared in the time that a process takes to start.
_SMALL = 30_000_000


def run_jobs(
    jobs: list[PairJob],
    folder: Path,
    work: Work,
    progress: Progress,
    workers: int | None = None,
    scheduler: str | None = None,
    meanwhile: Callable[[int, Outcome], None] | None = None,
) -> list[Outcome]:
    """Run all jobs; the outcomes have their order, and their shards lie in ``folder``.

    A job that fails with BuildError does not stop the others, nor does one whose process is
    killed. With a ``scheduler`` (see executors/cluster.py) they run there. ``meanwhile`` is told
    the number of each job and its outcome while other processes run the rest.
    """
    cores = workers or _cores()
    count = 1 if workers is None and _are_small(jobs) else min(len(jobs), cores)
    if scheduler is None and count <= 1:
        jobs = [replace(job, threads=cores) for job in jobs]
        return _run_here(jobs, folder, work, progress)
    outcomes: dict[int, Outcome] = {}

    def done(number: int, finished: Finished) -> None:
        job = jobs[number]
        outcomes[number] = Outcome(job, folder / finished.name, finished.problem)
        progress.begin(f"step {job.step} rank {job.rank}")
        for _ in range(job.stages):
            progress.finish_stage()
        if meanwhile is not None:
            meanwhile(number, outcomes[number])

    if scheduler is None:
        from msprobe_builder.pipeline.executors.processes import run_in_pools

        jobs = [replace(job, threads=max(1, cores // count)) for job in jobs]
        run_in_pools(jobs, folder, work, count, done)
    else:
        from msprobe_builder.pipeline.executors.cluster import run_on_cluster

        run_on_cluster(jobs, folder, work, scheduler, done)
    return [outcomes[number] for number in range(len(jobs))]


def failures(outcomes: list[Outcome]) -> list[tuple[Place, str]]:
    """Steps and ranks that could not be built; BuildError when nothing is left."""
    failed = [
        (Place(outcome.job.step, outcome.job.rank), outcome.problem)
        for outcome in outcomes
        if outcome.problem is not None
    ]
    if len(failed) == len(outcomes):
        raise BuildError(failed[0][1])
    return failed


def failed_ranks(failed: Sequence[tuple[Place, str]]) -> list[Diagnostic]:
    """One finding for each step and rank that was left out."""
    return [
        Diagnostic("error", "rank_failed", text_fact(why), step=place.step, rank=place.rank)
        for place, why in failed
    ]


def left_out(place: Place, why: str) -> Fact:
    """That a step and rank is not there, to be said where the result is."""
    return fact("summary.left_out", step=place.step, rank=place.rank, reason=why)


def _are_small(jobs: Sequence[PairJob]) -> bool:
    """Whether all jobs take less time than it takes to start processes for them."""
    size = 0
    for source in (source for job in jobs for source in (job.npu, job.bench)):
        if source is None:
            continue
        if not isinstance(source, Path) or (source / "dump_tensor_data").is_dir():
            return False
        with suppress(OSError):  # which is said by whoever reads it
            size += (source / "dump.json").stat().st_size
        if size > _SMALL:
            return False
    return True


def _run_here(jobs: list[PairJob], folder: Path, work: Work, progress: Progress) -> list[Outcome]:
    outcomes = []
    keeper = Keeper()
    for job in jobs:
        place = f" (step {job.step} rank {job.rank})" if len(jobs) > 1 else ""

        def report(stage: str, place: str = place) -> None:
            progress.begin(stage + place)
            progress.finish_stage()

        finished = attempt(work, job, folder, report, keeper)
        outcomes.append(Outcome(job, folder / finished.name, finished.problem))
    return outcomes


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
