"""Runs both commands as a stage asks, within what may be spent."""

from __future__ import annotations

import json
import shlex
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msprobe_bisect.journal import Journal
from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.limits import LARGEST_JSON
from msprobe_builder.base.publish import written
from msprobe_builder.facts.fact import Fact, fact, from_plain
from msprobe_builder.facts.wording import tell
from msprobe_builder.files.regular import read_bytes
from msprobe_collector.run.command import run_noted, run_recorded
from msprobe_collector.run.options import Request, plan_of
from msprobe_collector.run.settings import EXIT_STOPPED, Settings

SIDES = ("npu", "bench")


class SpentError(BuildError):
    """What may be spent is spent; what was found stays, and can be gone on with."""


class PlannedError(BuildError):
    """Both runs of a stage have to be made elsewhere; the text says how."""


@dataclass(frozen=True)
class Stage:
    """What to record of both runs; ``config`` is that of the recorder, without its folder."""

    name: str
    what: Fact
    config: Mapping[str, Any]
    trace: bool = False
    size: int = 0  # bytes that it is expected to take of each run, 0 where nobody knows

    @property
    def steps(self) -> list[int]:
        return list(self.config["step"])


@dataclass
class Budget:
    """Runs, seconds and bytes that may be spent by this call; None for as many as it takes."""

    runs: int | None = None
    seconds: float | None = None
    size: int | None = None  # bytes of dumps
    began: float = 0.0
    started: int = 0
    written: int = 0

    @property
    def left(self) -> float | None:
        """Seconds that may still be spent; None for as many as it takes."""
        return None if self.seconds is None else self.began + self.seconds - time.monotonic()

    def require_time(self) -> None:
        """SpentError where no time is left."""
        if self.seconds is not None and time.monotonic() - self.began > self.seconds:
            minutes = self.seconds / 60
            raise SpentError(
                f"--minutes {minutes:g} are spent; the same command with more goes on from here."
            )

    def start(self, expected: int = 0) -> None:
        """Another run begins, to write ``expected`` bytes; SpentError if it may not."""
        if self.runs is not None and self.started >= self.runs:
            raise SpentError(
                f"--runs {self.runs} are spent; the same command with more goes on from here."
            )
        self.require_time()
        if self.size is not None and self.written + max(expected, 1) > self.size:
            need = f", this run needs {expected:,} more" if expected else ""
            raise SpentError(
                f"--bytes {self.size:,}: {self.written:,} are spent{need};"
                " the same command with more goes on from here."
            )
        self.started += 1


@dataclass(frozen=True)
class Runner:
    """Records what stages ask; what is in the journal is not run again."""

    journal: Journal
    budget: Budget
    say: Callable[[str], None]
    seed: int | None = None
    plans: bool = False  # runs are made elsewhere

    def record(self, stage: Stage) -> dict[str, Path]:
        """The folder of the dump of each side. BuildError if a run leaves none, SpentError.

        PlannedError where runs are made elsewhere and these are not there.
        """
        if self.plans and not all(self.journal.has(stage.name, side) for side in SIDES):
            raise PlannedError(self._planned(stage))
        for side in SIDES:
            if not self.journal.has(stage.name, side):
                self.journal.note(stage.name, side, self._run(stage, side))
        return {side: self.journal.dump(stage.name, side) for side in SIDES}

    def departing(self, side: str, step: int) -> list[Fact]:
        """What compiled regions of a run, up to a step, make otherwise than eager does.

        BuildError if the command cannot be run, SpentError.
        """
        folder = self.journal.folder / "compiled"
        known = folder / f"{side}.json"
        if not known.is_file():
            folder.mkdir(exist_ok=True)
            stage = Stage("compiled", fact("bisect.compiled"), {"step": [step]}, trace=True)
            facts = self._compared(stage, side, folder)
            with written(known) as stream:
                stream.write(json.dumps(facts).encode())
        return list(from_plain(json.loads(read_bytes(known, LARGEST_JSON))))

    def _compared(self, stage: Stage, side: str, folder: Path) -> list[dict[str, Any]]:
        self.budget.start()
        command, step = self.journal.commands[side], max(stage.steps)
        told = fact(
            "bisect.runs",
            stage=stage.name,
            side=side,
            what=stage.what,
            step=step,
            command=command,
        )
        self.say(tell(told))
        config = {**stage.config, "dump_path": str((folder / side).absolute())}
        settings = Settings(step, {}, self.seed, stop_after=True, trace=True, compare_compiled=True)
        with (folder / f"{side}.log").open("w", encoding="utf-8") as said:
            request = Request(tuple(shlex.split(command)), config, settings)
            try:
                _, notes = run_noted(request, said)
            except OSError as error:
                why = error.strerror or error
                raise BuildError(f"{side}: {command} cannot be run: {why}.") from error
        return [one for note in notes for one in note.departing]

    def _planned(self, stage: Stage) -> str:
        """Write the plan of a stage; what to do with it, in words."""
        folder = self.journal.folder / stage.name
        folder.mkdir(exist_ok=True)
        path = folder / "plan.json"
        plan = plan_of(stage.config, stage.trace, self.seed)
        with written(path) as stream:
            stream.write(json.dumps(plan, indent=1).encode())
        self.journal.pending = stage.name
        self.journal.write()
        lines = [tell(fact("bisect.record", what=stage.what, plan=str(path)))]
        for side in SIDES:
            command = self.journal.commands[side]
            lines.append(f"  msprobe-run --plan plan.json -o {stage.name}_{side} -- {command}")
        dumps = " ".join(f"--{side}-dump {stage.name}_{side}" for side in SIDES)
        lines.append(f"  msprobe-bisect --continue {self.journal.folder} {dumps}")
        return "\n".join(lines)

    def _run(self, stage: Stage, side: str) -> Path:
        self.budget.start(stage.size)
        folder = self.journal.folder / stage.name
        dump, log = folder / side, folder / f"{side}.log"
        shutil.rmtree(dump, ignore_errors=True)  # of a run that was stopped
        folder.mkdir(exist_ok=True)
        last = max(stage.steps)
        command = self.journal.commands[side]
        self.say(
            tell(
                fact(
                    "bisect.runs",
                    stage=stage.name,
                    side=side,
                    what=stage.what,
                    step=last,
                    command=command,
                )
            )
        )
        began = time.monotonic()
        config = {**stage.config, "dump_path": str(dump.absolute())}
        settings = Settings(last_step=last, seed=self.seed, stop_after=True, trace=stage.trace)
        with log.open("w", encoding="utf-8") as said:
            request = Request(tuple(shlex.split(command)), config, settings)
            try:
                status = run_recorded(request, said)
            except OSError as error:
                why = error.strerror or error
                raise BuildError(f"{side}: {command} cannot be run: {why}.") from error
        size = sum(one.stat().st_size for one in dump.rglob("*") if one.is_file())
        self.budget.written += size
        seconds = time.monotonic() - began
        self.say(
            tell(
                fact(
                    "bisect.ran",
                    stage=stage.name,
                    side=side,
                    size=size / 1e6,
                    seconds=round(seconds),
                )
            )
        )
        if not size:
            raise BuildError(
                f"{side}: {command} ended with status {status}, nothing is recorded; see {log}."
            )
        if status not in (0, EXIT_STOPPED):
            self.say(
                tell(fact("bisect.ended", stage=stage.name, side=side, status=status, log=str(log)))
            )
        return dump
