"""What is made once however many processes run the tests."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """A folder of this run that all its processes have in common."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


def make_once(path: Path, make: Callable[[Path], None]) -> Path:
    """The folder ``path``, which the first process to ask has filled with ``make``."""
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            draft = path.with_name(f"{path.name}.draft.{os.getpid()}")
            draft.mkdir()
            make(draft)
            draft.rename(path)
    return path
