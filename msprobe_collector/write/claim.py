"""A folder for a run of its own: steps of an earlier run are never mixed with those of this one."""

from __future__ import annotations

import os
import tempfile
import time
from itertools import chain, count
from pathlib import Path

from msprobe_builder.base.publish import remove_left_overs, temporary_name

_loaded = time.time()


def own_folder(path: Path, step: int, rank: str, shared: bool) -> Path:
    """``path``, or with a number behind it where an earlier run has left this step or later ones.

    An earlier run is known by files older than this process: what this process has written, and
    in a ``shared`` training the other ranks, is younger. OSError where nothing can be written.
    """
    path.mkdir(mode=0o750, parents=True, exist_ok=True)
    began = _began(path)
    numbered = (path.with_name(f"{path.name}_{number}") for number in count(2))
    for candidate in chain([path], numbered):
        if not _is_taken(candidate, step, rank, shared, began):
            return candidate
    raise AssertionError("unreachable")


def _is_taken(path: Path, step: int, rank: str, shared: bool, began: float) -> bool:
    pattern = "step*/rank*" if shared else f"step*/{rank}"
    for folder in path.glob(pattern):
        number = folder.parent.name.removeprefix("step")
        if not number.isdecimal() or int(number) < step:
            continue
        for name in ("dump.json", "debug.json"):
            try:
                if (folder / name).stat().st_mtime < began:
                    return True
            except OSError:
                continue  # it is not there
    return False


def _began(path: Path) -> float:
    """When this process began, by the clock of the disk that ``path`` lies on."""
    try:
        after_name = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        since_boot = float(Path("/proc/uptime").read_text(encoding="utf-8").split()[0])
        age = since_boot - int(after_name[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        age = time.time() - _loaded
    remove_left_overs(path)
    with tempfile.NamedTemporaryFile(dir=path, prefix=".", suffix=temporary_name("")) as probe:
        return os.fstat(probe.fileno()).st_mtime - age
