"""Recordings of planted cases that are kept, so that a change of the builder judges only.

They lie below .cache/recordings, a folder for each state of what makes them: the collector, the
models, torch and the processor. The latest two states stay (about 40 kB a case); ``make clean``, or
deleting the folder, clears them.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import torch

from tests.conftest import REPOSITORY
from tests.faults.case import Case
from tests.faults.record import run

KEPT_STATES = 2
CACHE = REPOSITORY / ".cache" / "recordings"
_SOURCES = (
    *("msprobe_collector/**/*.py", "msprobe_builder/dump/names.py"),
    *("tests/faults/architectures/*.py", "tests/faults/record.py", "tests/faults/case.py"),
    *("tests/faults/noise.py", "tests/faults/planting.py", "tests/faults/recordings.py"),
    *("tests/collector/recording.py", "tests/alignment/respell.py"),
)


def recorded(case: Case, folder: Path) -> set[str]:
    """Both runs of a case below ``folder``, and the names of the calls that are to blame."""
    archive = state() / f"{hashlib.sha256(case.name.encode()).hexdigest()[:16]}.tar.gz"
    truth = folder / "truth.json"
    try:
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")
    except FileNotFoundError:
        found = run(case, folder)
        truth.write_text(json.dumps(sorted(found)), encoding="utf-8")
        keep(folder, archive)
    return set(json.loads(truth.read_text(encoding="utf-8")))


def keep(folder: Path, archive: Path) -> None:
    """Pack what was recorded; other processes see all of the archive or nothing."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    draft = archive.with_name(f"{archive.name}.{os.getpid()}")
    with tarfile.open(draft, "w:gz", compresslevel=1) as opened:
        for name in ("truth.json", "npu", "bench"):
            opened.add(folder / name, name)
    draft.replace(archive)


@functools.cache
def state() -> Path:
    """The folder of what is recorded in this state; those of long ago are removed."""
    digest = hashlib.sha256()
    for part in _machine():
        digest.update(part.encode() + b"\0")
    for pattern in _SOURCES:
        for path in sorted(REPOSITORY.glob(pattern)):
            digest.update(path.read_bytes())
    found = CACHE / digest.hexdigest()[:16]
    found.mkdir(parents=True, exist_ok=True)
    os.utime(found)  # in use
    states = sorted(CACHE.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in states[KEPT_STATES:]:
        shutil.rmtree(old, ignore_errors=True)
    return found


def _machine() -> Iterator[str]:
    """What rounding depends on besides the code."""
    yield torch.__version__
    yield torch.backends.cpu.get_cpu_capability()
    yield str(torch.get_num_threads())
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    yield next((one for one in lines if one.startswith("model name")), platform.processor())
