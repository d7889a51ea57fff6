"""The real pairs of runs, unpacked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

ARCHIVES = REPOSITORY / "tests" / "data" / "pairs"


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with every pair: pairs / "ddp" / "npu" / "step0" / "rank0"."""
    folder = tmp_path_factory.mktemp("pairs")
    for archive in sorted(ARCHIVES.glob("*.tar.xz")):
        unpack = [sys.executable, "-m", "tarfile", "--extract", str(archive), str(folder)]
        subprocess.run(unpack, check=True)
    return folder
