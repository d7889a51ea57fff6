"""Processes that are copies of one that has imported what takes long, most of what a start takes.

Python keeps one such process for all that ask, so it imports for all of them.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

COPIES = multiprocessing.get_context("forkserver")
COPIES.set_forkserver_preload(
    [
        *("torch.distributed", "torch._dynamo"),
        *("tests.collector.processes", "tests.reliability.programs"),
    ]
)
MOST_SECONDS = 600


def run_program(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What a program says and ends with that is written into ``folder`` and run there."""
    program, out, err = (folder / f"program.{end}" for end in ("py", "out", "err"))
    program.write_text(textwrap.dedent(text), encoding="utf-8")
    process = COPIES.Process(target=_run, args=([str(program), *arguments], out, err))
    process.start()
    process.join(MOST_SECONDS)
    status = process.exitcode
    assert status is not None, f"{program} did not end"
    said = [path.read_text(encoding="utf-8") for path in (out, err)]
    return subprocess.CompletedProcess([str(program), *arguments], status, *said)


def _run(command: Sequence[str], *said: Path) -> None:
    for stream, path in enumerate(said, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    sys.argv = [*command]
    sys.path.insert(0, str(Path(command[0]).parent))
    os.chdir(sys.path[0])
    runpy.run_path(command[0], run_name="__main__")
    atexit._run_exitfuncs()  # which a copy leaves out
