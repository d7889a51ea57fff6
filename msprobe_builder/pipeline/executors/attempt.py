"""One job, wherever it runs: its shard lies in a folder that all who share the work can see."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from msprobe_builder.base.errors import BuildError
from msprobe_builder.dump.inputs import inputs_of
from msprobe_builder.dump.source import Source
from msprobe_builder.merge.ranks.replica_source import ReplicaSource
from msprobe_builder.pipeline.compare import PairJob, Report
from msprobe_builder.pipeline.kept import Keeper

# Builds one job into a shard; must be importable by name for other processes. What several jobs
# need is kept between them by who runs them: threads of one worker share a keeper.
Work = Callable[[PairJob, Path, Report, Keeper], None]


@dataclass(frozen=True)
class Outcome:
    """A finished job: its shard, or why there is none."""

    job: PairJob
    shard: Path
    problem: str | None


class Finished(NamedTuple):
    """What a worker tells of a job: the name of the shard in the folder, or why there is none."""

    name: str
    problem: str | None


def attempt(work: Work, job: PairJob, folder: Path, report: Report, keeper: Keeper) -> Finished:
    """Run one job, unless its shard is there from before.

    The name of a shard says what it was made from, and it has that name once it is whole and on
    disk. So what an interrupted build finished is found again, and found no more once the inputs
    have changed; two workers that run the same job are not in each other's way.
    """
    try:
        job = replace(job, inputs=job_inputs(job))
        shard = folder / _shard_name(job)
        if shard.exists():
            for _ in range(job.stages):
                report("already finished")
            return Finished(shard.name, None)
        part = folder / f"{uuid4().hex}.part"
        try:
            work(job, part, report, keeper)
            _sync(part)
            part.replace(shard)
        finally:
            with suppress(FileNotFoundError):
                part.unlink()
    except BuildError as error:
        problem = str(error)
    except OSError as error:
        problem = f"Cannot read or write {error.filename or job.npu}: {error.strerror}."
    except MemoryError:
        problem = f"There is not enough memory to build {job.npu}; use fewer --workers."
    except Exception as error:  # a fault of ours; the other ranks shall not suffer from it
        import logging

        logging.getLogger(__name__).exception("Could not build %s", job.npu)
        problem = (
            f"An unexpected {type(error).__name__} ended the build of {job.npu}; "
            "please report it with what the log says."
        )
    else:
        return Finished(shard.name, None)
    return Finished("", problem)


def job_inputs(job: PairJob) -> tuple[str | None, str | None]:
    """What the dumps of a job are now: of npu, and of bench with the reference's second run."""
    if job.bench is None:
        return inputs_of(_ranks(job.npu)), None
    return inputs_of(_ranks(job.npu)), inputs_of([*_ranks(job.bench), *_ranks(job.noise)])


def _ranks(source: Source | ReplicaSource | None) -> list[Source]:
    """The rank directories that are read for a side of a job."""
    if source is None:
        return []
    if not isinstance(source, ReplicaSource):
        return [source]
    replicas = dict.fromkeys((source.replica, *source.peers, *source.holders))
    return [source.sources[rank] for one in replicas for rank in one.all_ranks()]


def lost(job: PairJob) -> str:
    """What is said of a job whose process was killed."""
    return (
        f"The process that built step {job.step} rank {job.rank} was killed, perhaps for "
        "lack of memory; use fewer --workers or a larger machine."
    )


def silent(stage: str) -> None:
    """Workers do not report stages; who gave them the work counts finished jobs."""


def _shard_name(job: PairJob) -> str:
    read = "-".join(inputs or "memory" for inputs in job.inputs)
    if job.told is not None:
        read += f".{blake2b(repr(job.told).encode('utf-8', 'surrogateescape')).hexdigest()[:16]}"
    return f"{job.step}.{job.rank}.{read}.shard"


def _sync(path: Path) -> None:
    with path.open("r+b") as file:
        os.fsync(file.fileno())
