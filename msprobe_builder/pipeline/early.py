"""Joining the first steps and ranks while others are still built.

Joining is done by one process, and while it waits for the others it has nothing else to do. What
it has joined is used if in the end the same shards are wanted in the same order; where a rank is
built once more, for what another has paired, all is joined anew. So the shards stay until then.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msprobe_builder.database.connection import connect_own
from msprobe_builder.database.write.gather import Gatherer, task_of_shard, without_journal
from msprobe_builder.database.write.packed import LARGEST_COPIED
from msprobe_builder.pipeline.executors.attempt import Outcome


class Joined:
    """The shards that are joined already, in the order of their jobs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._waiting: dict[int, Outcome] = {}  # by number, until those before them are there
        self._next = 0
        self._task: str | None = None
        self._shards: list[Path] = []
        self._connection: sqlite3.Connection | None = None
        self._gatherer: Gatherer | None = None
        self._is_full = False

    def take(self, number: int, outcome: Outcome) -> None:
        """Join a finished step and rank, or keep it in mind until those before it are joined."""
        self._waiting[number] = outcome
        while (first := self._waiting.pop(self._next, None)) is not None:
            self._next += 1
            if first.problem is None and not self._is_full:
                self._join(first.shard)

    def hand_over(self, target: Path, shards: Sequence[Path]) -> int:
        """Give what is joined the name ``target``; of how many of ``shards`` it is made.

        Of none, and there is no file, where it is not made of the first of them.
        """
        self._close()
        count = len(self._shards)
        if not count or self._shards != list(shards[:count]):
            return 0
        self._path.rename(target)
        return count

    def discard(self) -> None:
        """Leave nothing behind."""
        self._close()
        self._shards.clear()
        with suppress(FileNotFoundError):
            self._path.unlink()

    def _join(self, shard: Path) -> None:
        try:
            task = task_of_shard(shard)
            self._task = self._task or task
            if task != self._task:  # it will be left out
                return
            before = 0 if self._gatherer is None else self._path.stat().st_size
            if before + shard.stat().st_size > LARGEST_COPIED:
                self._is_full = True  # the shards are there as well
                return
            if self._gatherer is None:
                shutil.copyfile(shard, self._path)
                self._connection = connect_own(self._path)
                without_journal(self._connection)
                self._gatherer = Gatherer(self._connection)
            else:
                self._gatherer.append(shard)
        except (OSError, sqlite3.Error):  # such as a disk without room for both: joined in the end
            self._is_full = True
            self.discard()
        else:
            self._shards.append(shard)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = self._gatherer = None


@contextmanager
def joining_early(folder: Path) -> Iterator[Joined]:
    """What is joined meanwhile lies in ``folder``; nothing of it stays but what was handed over."""
    joined = Joined(folder / "joined.part")
    try:
        yield joined
    finally:
        joined.discard()
