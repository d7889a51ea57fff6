"""What each process of a command has to say of its recording, for ``msprobe-run`` to sum up."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

_PREFIX = "process"


@dataclass
class Note:
    """Kept up to date while the process runs; a process that is killed leaves its last one."""

    program: str  # what the process runs
    trains: bool = False  # it called a model that it trains
    rank: int | None = None
    dump: str = ""  # where its records lie
    recorded: int = 0  # steps
    optimizers: list[str] = field(default_factory=list)  # whose steps end those of the training
    stopped: bool = False  # by --stop-after
    regions: int = 0  # compiled ones that were compared with eager
    departing: list[dict[str, Any]] = field(default_factory=list)  # facts of those that depart
    estimated: tuple[int, int] = (0, 0)  # bytes of records and of tensors of a step
    compared: int = 0  # calls, by --watch
    missing: int = 0  # calls that the other dump does not hold
    watched: list[dict[str, Any]] = field(default_factory=list)  # facts of those that differ
    other_bits: list[dict[str, Any]] = field(default_factory=list)  # the same of its first bits
    problem: str = ""

    @staticmethod
    def of_process() -> Note:
        """An empty one of this process."""
        return Note(" ".join(sys.argv)[:200] or sys.executable)

    def write(self, folder: Path) -> None:
        """Whole or not at all; a folder that is gone with its msprobe-run has no readers."""
        if not folder.is_dir():
            return
        path = folder / f"{_PREFIX}{os.getpid()}.json"
        draft = path.with_suffix(".writing")
        draft.write_text(json.dumps(asdict(self)), encoding="utf-8")
        draft.replace(path)


def read_notes(folder: Path) -> Iterator[Note]:
    for path in sorted(folder.glob(f"{_PREFIX}*.json")):
        yield Note(**json.loads(path.read_text(encoding="utf-8")))
