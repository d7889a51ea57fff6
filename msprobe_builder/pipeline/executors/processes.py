"""Jobs in processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from pathlib import Path

from msprobe_builder.base.memory import give_back_arrays, leave_modules_alone
from msprobe_builder.base.program import is_program
from msprobe_builder.pipeline.compare import PairJob
from msprobe_builder.pipeline.executors.attempt import Finished, Work, attempt, lost, silent
from msprobe_builder.pipeline.kept import Keeper

# Is told the number of a job and what became of it.
Done = Callable[[int, Finished], None]


def run_in_pools(jobs: list[PairJob], folder: Path, work: Work, count: int, done: Done) -> None:
    """Run all jobs in ``count`` processes.

    A killed process takes its pool along; what that had not finished runs again, one job at a
    time, so that only the job that is to blame fails.
    """
    tasks = {number: (work, jobs[number], folder) for number in longest_first(jobs)}
    for number in _run_in_pool(tasks, count, done):
        if _run_in_pool({number: tasks[number]}, 1, done):
            done(number, Finished("", lost(jobs[number])))


def longest_first(jobs: Sequence[PairJob]) -> list[int]:
    """The numbers of jobs in the order in which to begin them, so that none is left for the end.

    The first stage of a pipeline may take twice as long as the others. Those of about one size
    keep their order, as do all where one needs what another has read.
    """
    if any(job.keep for job in jobs):
        return list(range(len(jobs)))
    sizes = [_size(job) for job in jobs]
    unit = max(1.0, max(sizes, default=0) / _CLASSES)
    return sorted(range(len(jobs)), key=lambda number: -round(sizes[number] / unit))


_CLASSES = 8  # of sizes


def _size(job: PairJob) -> int:
    """Bytes of the dumps of a job, as far as they are files of its own."""
    size = 0
    for source in (job.npu, job.bench, job.noise):
        if isinstance(source, Path):
            with suppress(OSError):  # which is said by whoever reads it
                size += (source / "dump.json").stat().st_size
    return size


def _run_in_pool(tasks: dict[int, tuple[Work, PairJob, Path]], count: int, done: Done) -> list[int]:
    """Run ``tasks``; returns those that were not finished because a process was killed."""
    context = multiprocessing.get_context(_start_method())
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=_begin_worker)
    unfinished = []
    try:
        futures = {}
        for number, (work, job, folder) in tasks.items():
            try:
                with _without_script():  # processes are started here
                    futures[pool.submit(_attempt_in_worker, work, job, folder)] = number
            except BrokenProcessPool:
                unfinished.append(number)
        for future in as_completed(futures):
            try:
                done(futures[future], future.result())
            except BrokenProcessPool:
                unfinished.append(futures[future])
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()
            worker.join()
        raise
    pool.shutdown()
    return sorted(unfinished)


def _start_method() -> str:
    """How workers begin: fresh, so that they inherit no locks, threads or memory of a caller.

    Those of a program of ours are copies of it, which have loaded all modules. Nothing of it runs
    beside; the threads of numpy end with the copying, those of torch and its devices do not.
    """
    is_alone = is_program() and threading.active_count() == 1 and "torch" not in sys.modules
    return "fork" if is_alone and sys.platform == "linux" else "spawn"


@contextmanager
def _without_script() -> Iterator[None]:
    """Hide the program from processes that start: they would run it again, as a module.

    Nothing of it is needed there, and scripts that compare ranks seldom ask for their own name.
    """
    main = sys.modules["__main__"]
    kept = {name: main.__dict__[name] for name in _OF_A_SCRIPT if name in main.__dict__}
    try:
        main.__spec__ = None
        main.__dict__.pop("__file__", None)
        yield
    finally:
        main.__dict__.update(kept)


_OF_A_SCRIPT = ("__spec__", "__file__")


def _begin_worker() -> None:
    """Leave Ctrl-C to the parent, and end when it says so, or is killed."""
    give_back_arrays()
    leave_modules_alone()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a copy has what the parent does
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


# Of a worker process: between two tasks of a pool nothing else of it stays.
_worker_keeper = Keeper()


def _attempt_in_worker(work: Work, job: PairJob, folder: Path) -> Finished:
    return attempt(work, job, folder, silent, _worker_keeper)
