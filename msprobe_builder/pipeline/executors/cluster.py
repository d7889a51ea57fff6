"""Jobs on the workers of a dask.distributed scheduler, over a directory that all of them share.

``local:N`` starts N workers on this machine, anything else is the address of a scheduler that
runs already (``tcp://host:8786``). A job moves to another worker when its own is killed.
"""

from __future__ import annotations

import asyncio
import importlib
import platform
import re
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.base.sources import sources_digest
from msprobe_builder.base.version import __version__
from msprobe_builder.pipeline.compare import PairJob
from msprobe_builder.pipeline.executors.attempt import Finished, Work, attempt, lost, silent
from msprobe_builder.pipeline.executors.processes import Done
from msprobe_builder.pipeline.kept import Keeper

_LOCAL = re.compile(r"local:([1-9][0-9]{0,3})\Z")
_ADDRESS = re.compile(r"[a-z]+://\S+\Z")
_CONNECT_SECONDS = 30
_WORKER_SECONDS = 120  # without any worker, before the build gives up
_LOOK_SECONDS = 2.0  # between two looks whether there still is a worker


def check_scheduler(scheduler: str) -> None:
    """Raise UsageError when it is no scheduler, or what it takes is not installed."""
    if not (_LOCAL.match(scheduler) or _ADDRESS.match(scheduler)):
        raise UsageError(
            f"--scheduler {scheduler!r} is neither an address (tcp://HOST:8786) nor local:N with "
            "the number of workers."
        )
    try:
        importlib.import_module("distributed")
    except ImportError as error:
        raise UsageError(
            "--scheduler needs dask.distributed; install it with pip install "
            "'msprobe-graph[cluster]'."
        ) from error


def run_on_cluster(
    jobs: list[PairJob], folder: Path, work: Work, scheduler: str, done: Done
) -> None:
    """Run all jobs; BuildError when the scheduler or all workers are lost, or are others than this.

    Jobs whose workers were killed again and again are done with a problem, as are others.
    """
    distributed: Any = importlib.import_module("distributed")
    with _connected(scheduler) as client:
        _require_workers(client)
        _require_alike(client, folder)
        shared = folder.absolute()
        futures: dict[Any, int] = {}
        for number, job in enumerate(jobs):
            key = f"{job.step}-{job.rank}-{uuid4().hex}"
            future = client.submit(_attempt_on_worker, work, job, shared, key=key, pure=False)
            futures[future] = number
        try:
            _follow(client, futures, jobs, done, distributed)
        except BaseException:
            with suppress(Exception):  # the connection may be what was lost
                client.cancel(list(futures), force=True)
            raise


def _follow(
    client: Any, futures: dict[Any, int], jobs: list[PairJob], done: Done, distributed: Any
) -> None:
    """Tell of each job as it ends."""
    waiting = set(futures)
    alone_since: float | None = None
    while waiting:
        try:
            state = distributed.wait(
                list(waiting), timeout=_LOOK_SECONDS, return_when="FIRST_COMPLETED"
            )
        except (TimeoutError, distributed.TimeoutError):
            if client.status != "running":
                raise _lost_scheduler() from None
            if client.nthreads():
                alone_since = None
                continue
            alone_since = alone_since or time.monotonic()
            if time.monotonic() - alone_since > _WORKER_SECONDS:
                raise BuildError(
                    f"The scheduler has had no worker for {_WORKER_SECONDS} s; start some and "
                    "build again, with --resume if this build had it."
                ) from None
            continue
        except (CancelledError, OSError) as error:
            raise _lost_scheduler() from error
        for future in state.done:
            waiting.discard(future)
            number = futures[future]
            try:
                finished = future.result()
            except distributed.KilledWorker:
                finished = Finished("", lost(jobs[number]))
            except (CancelledError, distributed.client.FutureCancelledError, OSError) as error:
                raise _lost_scheduler() from error
            done(number, finished)
            future.release()


@contextmanager
def _connected(scheduler: str) -> Iterator[Any]:
    """A client of the scheduler; a local one ends with it."""
    distributed: Any = importlib.import_module("distributed")
    local = _LOCAL.match(scheduler)
    try:
        if local:
            with _without_pages():
                cluster = distributed.LocalCluster(
                    n_workers=int(local[1]),
                    threads_per_worker=1,
                    processes=True,
                    host="127.0.0.1",
                    dashboard_address=None,
                    silence_logs="ERROR",
                )
            # Without a dashboard its server listens all the same.
            cluster.scheduler.http_server.stop()
            with cluster, distributed.Client(cluster) as client:
                client.run(_stop_listening)
                yield client
        else:
            _require_scheduler(scheduler)
            with distributed.Client(
                scheduler, timeout=_CONNECT_SECONDS, name="msprobe-build"
            ) as client:
                yield client
    except (TimeoutError, distributed.TimeoutError, OSError, ValueError) as error:
        raise BuildError(
            f"Cannot reach the scheduler {scheduler}: {str(error) or 'no answer'}; start it with "
            "'dask scheduler' or correct the address."
        ) from error


def _without_pages() -> Any:
    """Nothing is served at the ports of the scheduler and the workers that begin meanwhile."""
    dask: Any = importlib.import_module("dask")
    return dask.config.set(
        {"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}
    )


def _stop_listening(dask_worker: Any) -> None:
    dask_worker.http_server.stop()


def _require_scheduler(address: str) -> None:
    """Let whoever listens there greet as a scheduler does.

    The client itself would wait for ever for a greeting, as from a web server whose port this is.
    """
    distributed: Any = importlib.import_module("distributed")
    comm: Any = importlib.import_module("distributed.comm")

    async def greet() -> None:
        arguments = distributed.Security().get_connection_args("client")
        greeting = comm.connect(address, timeout=_CONNECT_SECONDS, **arguments)
        connection = await asyncio.wait_for(greeting, _CONNECT_SECONDS)
        await connection.close()

    try:
        _run(greet)
    except (TimeoutError, asyncio.TimeoutError, OSError, ValueError):
        raise
    except Exception as error:  # what is no greeting is taken apart as if it were one
        raise BuildError(
            f"What answers at {address} is no scheduler; start one with 'dask scheduler' or "
            "correct the address."
        ) from error


def _run(task: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a task, also where a loop runs already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(task())
        return
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: asyncio.run(task())).result()


def _require_workers(client: Any) -> None:
    """Wait for a first worker: those of a batch system come later than their scheduler."""
    try:
        client.wait_for_workers(1, timeout=_WORKER_SECONDS)
    except TimeoutError as error:
        raise BuildError(
            f"The scheduler has no worker after {_WORKER_SECONDS} s; start some with "
            "'dask worker ADDRESS --nthreads 1'."
        ) from error


def _require_alike(client: Any, folder: Path) -> None:
    """BuildError unless every worker runs this code and sees the same directory."""
    own = (__version__, sources_digest(), platform.python_version_tuple()[:2], np.__version__)
    token = folder / f"{uuid4().hex}.part"
    token.touch()
    try:
        answers = client.run(_probe(str(token.absolute())), on_error="return")
    finally:
        token.unlink()
    for worker, answer in sorted(answers.items()):
        if isinstance(answer, BaseException):
            raise BuildError(
                f"Worker {worker} cannot import msprobe_builder ({answer}); install "
                f"msprobe-graph {__version__} in its environment."
            )
        *versions, sees = answer
        if tuple(versions) != own:
            raise BuildError(
                f"Worker {worker} runs {_told(*versions)}, this is {_told(*own)}; make the "
                "environments alike."
            )
        if not sees:
            raise BuildError(
                f"Worker {worker} does not see the directory {folder.parent}; give an output "
                "directory that all machines share."
            )


def _probe(token: str) -> Callable[[], tuple[Any, ...]]:
    """A function that travels as code, for workers that may lack this package."""

    def probe() -> tuple[Any, ...]:
        import platform
        from pathlib import Path

        import numpy

        from msprobe_builder.base.sources import sources_digest
        from msprobe_builder.base.version import __version__

        python = platform.python_version_tuple()[:2]
        return __version__, sources_digest(), python, numpy.__version__, Path(token).exists()

    return probe


def _told(version: str, sources: str, python: tuple[str, str], numpy: str) -> str:
    return f"msprobe-graph {version} ({sources}), Python {'.'.join(python)}, numpy {numpy}"


def _lost_scheduler() -> BuildError:
    return BuildError(
        "The connection to the scheduler was lost; build again, with --resume if this build had it."
    )


# Of a worker: threads of one share it.
_worker_keeper = Keeper()


def _attempt_on_worker(work: Work, job: PairJob, folder: Path) -> Finished:
    return attempt(work, job, folder, silent, _worker_keeper)
