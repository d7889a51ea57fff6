"""A file of the reference tool as one of ours, in a process of its own.

It holds whatever its maker has put into it: reading it may take memory and time that the server
needs for others, and is ended after a while.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

from msprobe_builder.database.file import DatabaseFile
from msprobe_builder.database.problems import read_only
from tb_graph_ascend.files.database import open_database
from tb_graph_ascend.files.discover import SUFFIX
from tb_graph_ascend.limits import CONVERT_SECONDS
from tb_graph_ascend.problems import ProblemError, cannot_show, conflict, problem_of, try_again

_one_at_a_time = threading.Lock()


def convert(file: DatabaseFile) -> str:
    """Write the new file beside ``file``, which stays as it is; returns its name in the list."""
    _require_reference(file)
    old = file.path
    new = old.with_name(f"{old.name.removesuffix(SUFFIX)}.imported{SUFFIX}")
    name = file.name.removesuffix(old.name) + new.name
    if not os.access(old.parent, os.W_OK):
        raise problem_of(read_only(file.name))
    if not _one_at_a_time.acquire(blocking=False):
        raise try_again("busy", "Another file is being imported.", "Try again in a moment.")
    try:
        if os.path.lexists(new):
            message = f"{name} is there already."
            raise conflict("already_converted", message, "Choose it in the list of files.")
        _run(file, new)
    finally:
        _one_at_a_time.release()
    return name


def _require_reference(file: DatabaseFile) -> None:
    try:
        with open_database(file):
            pass
    except ProblemError as error:
        if error.problem.code == "reference_format":
            return
        raise
    raise conflict("needs_no_import", f"{file.name} can be shown as it is.", "Open it.")


def _run(file: DatabaseFile, new: Path) -> None:
    command = [sys.executable, "-m", "msprobe_builder", "import", str(file.path), "-o", str(new)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=CONVERT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise cannot_show(
            "cannot_import",
            f"Importing {file.name} took longer than {CONVERT_SECONDS:.0f} seconds.",
            "Do it on the command line: msprobe-build import FILE",
        ) from error
    if done.returncode or not new.is_file():
        said = done.stderr.decode("utf-8", "replace").splitlines()
        why = next((line for line in said if line.startswith("msprobe-build: ")), "it ended early")
        raise cannot_show(
            "cannot_import",
            f"{file.name} cannot be imported: {why.removeprefix('msprobe-build: ')}",
            "Build it again from the dumps with msprobe-build.",
        )
