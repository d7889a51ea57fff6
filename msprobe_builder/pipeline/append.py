"""Adding steps and ranks to a database, which stays whole until the new one replaces it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.base.version import __version__
from msprobe_builder.database.migrations import SCHEMA_VERSION
from msprobe_builder.database.open import locked, opened
from msprobe_builder.database.read.meta import read_meta
from msprobe_builder.database.write.append import copy_without, read_inputs, schema_version
from msprobe_builder.dump.source import Place
from msprobe_builder.pipeline.compare import PairJob
from msprobe_builder.pipeline.config import BuildConfig
from msprobe_builder.pipeline.executors.attempt import job_inputs
from msprobe_builder.pipeline.join import shown_options

_SHOWN = 8


@dataclass(frozen=True)
class Base:
    """The database that is added to; ``inputs`` are those of both sides of each step and rank."""

    path: Path
    task: str
    inputs: Mapping[Place, tuple[str | None, str | None]]

    def lacking(self, jobs: Sequence[PairJob]) -> list[PairJob]:
        """The jobs for what it does not hold.

        BuildError when it holds all, or holds something whose dumps have changed since. Dumps
        that are gone are no change: they need not be kept for what was built of them.
        """
        changed = [job for job in jobs if self._has_changed(job)]
        if changed:
            raise BuildError(
                f"The dumps of {_list(changed)} are not those that {self.path} was built from, or "
                "have changed since; build everything anew with -o."
            )
        lacking = [job for job in jobs if Place(job.step, job.rank) not in self.inputs]
        if not lacking:
            raise BuildError(
                f"{self.path} holds all {len(jobs):,} steps and ranks already; there is nothing "
                "to append."
            )
        return lacking

    def _has_changed(self, job: PairJob) -> bool:
        held = self.inputs.get(Place(job.step, job.rank))
        if held is None:
            return False
        now = job_inputs(job)
        return any(old is not None and old != new for old, new in zip(held, now, strict=True))

    def locked(self) -> AbstractContextManager[None]:
        """Nobody changes the file meanwhile: a match made by hand would be lost."""
        return locked(self.path)

    def copy(self, temporary: Path, added: Sequence[PairJob]) -> None:
        """Its content at ``temporary``, without the findings that ``added`` make untrue."""
        copy_without(self.path, temporary, [(job.step, job.rank) for job in added])


def open_base(path: Path, config: BuildConfig) -> Base:
    """What a build with ``config`` would be added to.

    UsageError when it was built in another way, so that its ranks and new ones would not be alike.
    """
    with opened(path, as_it_is=True) as connection:
        version = schema_version(connection)
        if version != SCHEMA_VERSION:
            raise UsageError(
                f"{path} has schema version {version}, this program writes {SCHEMA_VERSION}; "
                "build everything anew with -o."
            )
        meta, rows = read_meta(connection), read_inputs(connection)
    own = {
        "kind": "build" if config.bench_path is None else "compare",
        "builder_version": __version__,
        "options": _as_compared(shown_options(config)),
    }
    for key, value in own.items():
        held = meta.get(key)
        if (_as_compared(held) if key == "options" else held) != value:
            raise UsageError(
                f"{path} was built with {key} {held or 'unknown'}, this build has "
                f"{value}; give the same options, or build everything anew with -o."
            )
    inputs: dict[Place, tuple[str | None, str | None]] = {}
    for step, rank, side, read in rows:
        npu, bench = inputs.get(Place(step, rank), (None, None))
        inputs[Place(step, rank)] = (npu, read) if side else (read, bench)
    return Base(path, str(meta["task"]), inputs)


def _as_compared(options: str | None) -> str | None:
    """The options but for what says which steps and ranks there are, not how they are compared."""
    try:
        chosen = json.loads(options or "")
    except ValueError:
        return options
    if isinstance(chosen, dict):
        chosen.pop("allow_missing", None)
    return json.dumps(chosen, sort_keys=True)


def _list(jobs: Sequence[PairJob]) -> str:
    shown = ", ".join(f"step {job.step} rank {job.rank}" for job in jobs[:_SHOWN])
    more = len(jobs) - _SHOWN
    return f"{shown} and {more:,} more" if more > 0 else shown
