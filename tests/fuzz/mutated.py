"""Commands on real files that were changed as :mod:`tests.fuzz.changes` does it.

Each run is a whole command, a few one after another in a process that may be ended; it fails when
it ends with status 70 or a signal, or takes more than ``SECONDS`` or ``MEMORY``.

``python -m tests.fuzz.mutated night 20000 FOLDER`` tries what no night before has, and keeps what
fails; ``KIND FIRST END`` tries some again. Numbers that once failed stand in mutations.tsv.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import random
import resource
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from datetime import datetime
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from msprobe_builder.command.main import main
from msprobe_operators.command import main as operators
from tests.fuzz.changes import KINDS

SECONDS = 60
MEMORY = 2 << 30  # bytes
TOGETHER = 50
FINE = {0, 1, 2, 3, 4}


class FaultError(AssertionError):
    """A command that ended as none may; names the kind and the number of the change."""


def runs(
    kind: str, numbers: Iterable[int], kept: Path | None = None, most: int | None = None
) -> Counter[int]:
    """How often each status came, of at least ``most`` commands; FaultError for a fault.

    With ``kept`` faults are counted as status 70 instead, and what was changed stays there.
    """
    make, change = KINDS[kind]
    found: Counter[int] = Counter()
    with tempfile.TemporaryDirectory(prefix="mutated-") as name, closing(Apart()) as apart:
        base = Path(name) / "base"
        base.mkdir()
        make(base)
        for number in numbers:
            if most is not None and found.total() >= most:
                break
            folder = Path(name) / str(number)
            shutil.copytree(base, folder)
            for command in change(folder, random.Random(number)):  # noqa: S311
                status, said = apart.ran(command)
                if status in FINE:
                    found[status] += 1
                    continue
                fault = f"{kind} {number}: {command} ended with {status}: {said}"
                if kept is None:
                    raise FaultError(fault)
                found[70] += 1
                shutil.copytree(folder, kept / f"{kind}-{number}", dirs_exist_ok=True)
                (kept / f"{kind}-{number}" / "said.txt").write_text(fault, "utf-8", "replace")
                print(fault, flush=True)
            shutil.rmtree(folder)
    return found


class Apart:
    """Runs commands in a process that may be ended, a new one after ``TOGETHER`` of them.

    Starting one takes ten times as long as most commands.
    """

    def __init__(self) -> None:
        """No process yet."""
        self._process: BaseProcess | None = None
        self._left = 0

    def ran(self, command: list[str]) -> tuple[int, str]:
        """Status and last words of a command."""
        if not self._left:
            self._start()
        self._left -= 1
        assert self._process is not None
        try:
            self._pipe.send(command)
            if not self._pipe.poll(SECONDS):
                self.close()
                return -signal.SIGALRM, f"it took longer than {SECONDS} seconds"
            status, said, memory = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            code = self._process.exitcode
            self.close()
            return code or -1, "its process ended"
        if memory > MEMORY:
            self.close()
            return -1, f"it took {memory >> 20} MiB"
        return status, said

    def close(self) -> None:
        """End the process, whatever it does."""
        self._left = 0
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None

    def _start(self) -> None:
        self.close()
        self._pipe, inner = multiprocessing.Pipe()
        context = multiprocessing.get_context("fork")
        self._process = context.Process(target=_run_each, args=(inner, self._pipe))
        self._process.start()
        inner.close()
        self._left = TOGETHER


def _run_each(told: Connection, outer: Connection) -> None:
    outer.close()  # so that the end of who asks is an end here
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    while True:
        said = io.StringIO()
        try:
            command = told.recv()
        except EOFError:
            return
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            try:
                run, words = (
                    (operators, command[1:]) if command[0] == "operators" else (main, command)
                )
                status = run(words)
            except SystemExit as ended:
                status = int(ended.code or 0)
        memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        told.send((status, said.getvalue()[-2000:], memory))


def night(count: int, kept: Path) -> int:
    """``count`` commands, as many of each kind, that no night before has tried; the exit status.

    The number that comes next stands in ``kept``, beside what was changed where a fault was found.
    """
    kept.mkdir(parents=True, exist_ok=True)
    state = kept / "next"
    first = int(state.read_text()) if state.is_file() else 1000
    each = -(-count // len(KINDS))
    state.write_text(f"{first + each}\n")  # a night that is stopped is not tried again
    total: Counter[int] = Counter()
    for kind in KINDS:
        found = runs(kind, range(first, first + each), kept, each)
        total += found
        print(f"{datetime.now():%Y-%m-%d %H:%M} {kind} from {first}: {dict(found)}", flush=True)
    print(f"{total.total()} commands, {total[70]} faults")
    return 1 if total[70] else 0


if __name__ == "__main__":
    if sys.argv[1] == "night":
        raise SystemExit(night(int(sys.argv[2]), Path(sys.argv[3])))
    print(dict(runs(sys.argv[1], range(int(sys.argv[2]), int(sys.argv[3])))))
