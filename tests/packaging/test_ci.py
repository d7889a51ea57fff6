"""Continuous integration says what happened: in its last line and in its exit status."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY


@pytest.mark.parametrize(
    ("printed", "status", "summary"),
    [
        ("=== 3 passed in 1.20s ===", 0, "=== 3 passed in 1.20s ==="),
        ("=== 1 failed, 3 passed in 1s ===\nmake: *** 1", 2, "=== 1 failed, 3 passed in 1s ==="),
        ("=== 3 passed, 1 error in 1s ===", 2, "=== 3 passed, 1 error in 1s ==="),
        ("ruff: line too long", 2, "0 passed, 1 failed"),
        ("=== 3 passed in 1s ===\nsomething else failed", 2, "0 passed, 1 failed"),
    ],
)
def test_the_last_line_counts_and_the_status_is_that_of_make(
    printed: str, status: int, summary: str, tmp_path: Path
) -> None:
    stand_in = tmp_path / "make"
    stand_in.write_text(f"#!/bin/sh\ncat <<'END'\n{printed}\nEND\nexit {status}\n")
    stand_in.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        [REPOSITORY / ".ci" / "run"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == status
    assert summary in done.stdout.splitlines()[-1]
