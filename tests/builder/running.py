"""The command in this process: as good as one of its own where signals and pipes play no part."""

from __future__ import annotations

import contextlib
import io
import subprocess
from collections.abc import Sequence

from msprobe_builder.command.main import main


def run_here(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """What ``msprobe-build`` would say and end with."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(arguments)
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())
