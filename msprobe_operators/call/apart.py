"""Calls that a file asks for, run in processes of their own with limits of memory and time.

A kernel that is given nonsense may crash, allocate all memory or never return, and Python cannot
stop it; a process can be ended. On the CPU the process may write no file either.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Generic, TypeVar

from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.limits import CALL_MEMORY, CALL_SECONDS, CHECK_SECONDS
from msprobe_builder.facts.fact import Fact, fact

try:
    import resource
except ImportError:  # Windows, where time is the only limit
    resource = None  # type: ignore[assignment]

Item = TypeVar("Item")
Result = TypeVar("Result")

TIME_IS_UP = "operator.time_is_up"  # the code of what is said of items that nobody came to
_ORPHANED_SECONDS = 5.0  # how often a process that waits looks whether its parent is there


@dataclass(frozen=True)
class Bounds:
    """What one item may take: seconds, and bytes on the CPU; ``threads`` None leaves torch's.

    ``total`` is how many seconds all items may take.
    """

    seconds: float = CALL_SECONDS
    total: float = CHECK_SECONDS
    memory: int = CALL_MEMORY
    threads: int | None = 1


BOUNDS = Bounds()


@dataclass
class _Worker(Generic[Item]):
    """A process, the near end of its pipe, and what it works on until when."""

    process: BaseProcess
    pipe: Connection
    device: str
    item: list[Item] = field(default_factory=list)  # none while it is idle, else one
    until: float = 0.0


def run_apart(
    work: Callable[[Item, str], Result], item: Item, device: str, bounds: Bounds
) -> Result | Fact:
    """``work`` of one item and device, or why the process gave no result."""
    [(_, result)] = each_apart(work, [item], [device], bounds)
    return result


def each_apart(
    work: Callable[[Item, str], Result],
    items: Sequence[Item],
    devices: Sequence[str],
    bounds: Bounds,
) -> Iterator[tuple[Item, Result | Fact]]:
    """``work`` of each item, in one process for each of ``devices``, as they are finished.

    A process that dies or takes too long is replaced, and the item gets the reason as its result;
    so do all that are not finished when the time is up.
    ``work`` and the items are sent to the processes; what ``work`` raises ends all.
    """
    left = list(reversed(items))
    end = time.monotonic() + bounds.total
    workers: list[_Worker[Item]] = []
    try:
        for device in devices[: len(left)]:
            workers.append(_started(work, device, bounds))
            _give(workers[-1], left, bounds)
        while busy := [worker for worker in workers if worker.item]:
            soonest = min(end, *(worker.until for worker in busy))
            ready = wait([one.pipe for one in busy], max(0.0, soonest - time.monotonic()))
            if not ready and time.monotonic() >= end:
                left += [worker.item[0] for worker in reversed(busy)]
                break
            for worker in busy:
                if worker.pipe in ready:
                    result = _received(worker)
                elif time.monotonic() >= worker.until:
                    worker.process.kill()
                    result = fact("operator.took_too_long", seconds=bounds.seconds)
                else:
                    continue
                [item], worker.item = worker.item, []
                if isinstance(result, BaseException):
                    raise result
                if isinstance(result, Fact):
                    _end(worker)
                    if left:
                        workers[workers.index(worker)] = worker = _started(
                            work, worker.device, bounds
                        )
                if left and time.monotonic() < end:
                    _give(worker, left, bounds)
                yield item, result
    finally:
        for worker in workers:
            _end(worker)
    for item in reversed(left):
        yield item, fact(TIME_IS_UP, seconds=bounds.total)


def _started(work: Callable[..., object], device: str, bounds: Bounds) -> _Worker[Item]:
    # A fork has torch loaded already, but no device: CUDA does not survive one.
    is_forked = device == "cpu" and sys.platform == "linux"
    fork, spawn = multiprocessing.get_context("fork"), multiprocessing.get_context("spawn")
    context = fork if is_forked else spawn
    near, far = context.Pipe()
    process = context.Process(
        target=_serve, args=(far, work, device, bounds, os.getpid()), daemon=True
    )
    process.start()
    far.close()
    return _Worker(process, near, device)


def _give(worker: _Worker[Item], left: list[Item], bounds: Bounds) -> None:
    worker.item, worker.until = [left.pop()], time.monotonic() + bounds.seconds
    with suppress(OSError):  # it died; what it leaves is received
        worker.pipe.send(worker.item[0])


def _received(worker: _Worker[Item]) -> Any:
    try:
        return worker.pipe.recv()
    except (EOFError, OSError):
        worker.process.join()
        code = worker.process.exitcode or 0
        how = signal.Signals(-code).name if code < 0 else f"status {code}"
        return fact("operator.process_ended", how=how)


def _end(worker: _Worker[Item]) -> None:
    worker.pipe.close()
    worker.process.kill()
    worker.process.join()


def _serve(
    pipe: Connection, work: Callable[..., object], device: str, bounds: Bounds, parent: int
) -> None:
    """Answer each item that comes with its result, in a process of its own."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    if bounds.threads is not None:
        import torch

        torch.set_num_threads(bounds.threads)
    if device == "cpu":
        _limit(bounds)
    while True:
        while not pipe.poll(_ORPHANED_SECONDS):
            if os.getppid() != parent:
                return
        try:
            item = pipe.recv()
        except EOFError:
            return
        _end_after(bounds.seconds)  # also when nobody is left to do it
        result: object
        try:
            result = work(item, device)
        except Exception as error:
            result = _sent(error)
        _end_after(0)
        pipe.send(result)


def _sent(error: Exception) -> Exception:
    """The error as it can be sent: not all can be made again of their arguments."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301  # of our own making
    except Exception:
        kind = BuildError if isinstance(error, BuildError) else RuntimeError
        return kind(" ".join(str(error).split()) or type(error).__name__)
    return error


def _end_after(seconds: float) -> None:
    if hasattr(signal, "setitimer"):  # the default of its signal ends the process, also inside C
        signal.setitimer(signal.ITIMER_REAL, seconds and seconds + 1)


def _limit(bounds: Bounds) -> None:
    if resource is None:
        return
    tempfile.gettempdir()  # which is found by writing there; what torch imports later asks for it
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: 0}
    with suppress(OSError, ValueError):  # Linux alone tells what it has
        has = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
        limits[resource.RLIMIT_AS] = has + min(bounds.memory, _free_memory())
    for which, most in limits.items():
        with suppress(OSError, ValueError):
            resource.setrlimit(which, (most, most))


def _free_memory() -> int:
    """Bytes that may be taken without driving out others: a tenth of what is free stays."""
    lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    [free] = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(free) * 1024 * 9 // 10
