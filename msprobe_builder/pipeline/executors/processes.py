"""Running many steps and ranks: in this process, or in one process per core."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.base.errors import BuildError
from msprobe_builder.dump.source import Place
from msprobe_builder.pipeline.compare import PairJob, Report
from msprobe_builder.pipeline.kept import Keeper
from msprobe_builder.pipeline.progress import Progress

_log = logging.getLogger(__name__)

# Builds one job into a shard; must be importable by name for the worker processes. What several
# jobs need is kept between them by who runs them: threads of one worker share a keeper.
Work = Callable[[PairJob, Path, Report, Keeper], None]


# Bytes of dump.json that are read and compared in the time that a process takes to start.
_SMALL = 30_000_000


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

    A job that fails with BuildError does not stop the others, nor does one whose process is
    killed. The caller removes the shards.
    """
    shards = _shards(target, len(jobs))
    cores = workers or _cores()
    count = 1 if workers is None and _are_small(jobs) else min(len(jobs), cores)
    jobs = [replace(job, threads=max(1, cores // count)) for job in jobs]
    if count <= 1:
        return _run_here(jobs, shards, work, progress)
    return _run_in_pools(jobs, shards, work, progress, count)


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
        Diagnostic("error", "rank_failed", why, step=place.step, rank=place.rank)
        for place, why in failed
    ]


def remove_shards(target: Path, count: int) -> None:
    """Remove what is left of the shards of ``count`` jobs."""
    for shard in _shards(target, count):
        _remove(shard)


def _shards(target: Path, count: int) -> list[Path]:
    return [target.with_name(f"{target.name}.{number}") for number in range(count)]


def _run_here(
    jobs: list[PairJob], shards: list[Path], work: Work, progress: Progress
) -> list[Outcome]:
    outcomes = []
    keeper = Keeper()
    for job, shard in zip(jobs, shards, strict=True):
        place = f" (step {job.step} rank {job.rank})" if len(jobs) > 1 else ""

        def report(stage: str, place: str = place) -> None:
            progress.begin(stage + place)
            progress.finish_stage()

        outcomes.append(Outcome(job, shard, _attempt(work, job, shard, report, keeper)))
    return outcomes


def _run_in_pools(
    jobs: list[PairJob], shards: list[Path], work: Work, progress: Progress, count: int
) -> list[Outcome]:
    """Run all jobs in processes.

    A killed process takes its pool along; what that had not finished runs again, one job at a
    time, so that only the job that is to blame fails.
    """
    outcomes: dict[int, Outcome] = {}

    def done(number: int, problem: str | None) -> None:
        job = jobs[number]
        outcomes[number] = Outcome(job, shards[number], problem)
        progress.begin(f"step {job.step} rank {job.rank}")
        for _ in range(job.stages):
            progress.finish_stage()

    tasks = {number: (work, jobs[number], shards[number]) for number in range(len(jobs))}
    for number in _run_in_pool(tasks, count, done):
        shards[number].unlink(missing_ok=True)
        job = jobs[number]
        if _run_in_pool({number: tasks[number]}, 1, done):
            done(
                number,
                f"The process that built step {job.step} rank {job.rank} was killed, perhaps for "
                "lack of memory; use fewer --workers or a larger machine.",
            )
    return [outcomes[number] for number in range(len(jobs))]


def _run_in_pool(
    tasks: dict[int, tuple[Work, PairJob, Path]],
    count: int,
    done: Callable[[int, str | None], None],
) -> list[int]:
    """Run ``tasks``; returns those that were not finished because a process was killed."""
    # Workers start fresh: they inherit no locks, threads or memory of the parent.
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=_begin_worker)
    lost = []
    try:
        futures = {}
        for number, (work, job, shard) in tasks.items():
            try:
                futures[pool.submit(_attempt_in_worker, work, job, shard)] = number
            except BrokenProcessPool:
                lost.append(number)
        for future in as_completed(futures):
            try:
                done(futures[future], future.result())
            except BrokenProcessPool:
                lost.append(futures[future])
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()
            worker.join()
        raise
    pool.shutdown()
    return sorted(lost)


def _begin_worker() -> None:
    """Leave Ctrl-C to the parent, and end when the parent is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


# Of a worker process: between two tasks of a pool nothing else of it stays.
_worker_keeper = Keeper()


def _attempt_in_worker(work: Work, job: PairJob, shard: Path) -> str | None:
    return _attempt(work, job, shard, _silent, _worker_keeper)


def _attempt(work: Work, job: PairJob, shard: Path, report: Report, keeper: Keeper) -> str | None:
    """Why the job failed, None when it did not."""
    try:
        work(job, shard, report, keeper)
    except BuildError as error:
        problem = str(error)
    except OSError as error:
        problem = f"Cannot read or write {error.filename or job.npu}: {error.strerror}."
    except MemoryError:
        problem = f"There is not enough memory to build {job.npu}; use fewer --workers."
    except Exception as error:  # a fault of ours; the other ranks shall not suffer from it
        _log.exception("Could not build %s", job.npu)
        problem = (
            f"An unexpected {type(error).__name__} ended the build of {job.npu}; "
            "please report it with what the log says."
        )
    else:
        return None
    _remove(shard)
    return problem


def _silent(stage: str) -> None:
    """Workers do not report stages; the parent counts finished jobs."""


def _remove(path: Path) -> None:
    with suppress(FileNotFoundError):
        path.unlink()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
