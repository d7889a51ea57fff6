"""However the work is shared out, the database says the same."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from msprobe_builder import BuildConfig, build
from msprobe_builder.pipeline.compare import PairJob
from msprobe_builder.pipeline.executors import run
from tests.builder.small_dumps import forward, tensor, write_dump


def content(database: Path) -> dict[str, list[str]]:
    """All rows of all tables as they are stored, but for the time of the build."""
    with closing(sqlite3.connect(database)) as connection:
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        ).fetchall()
        rows = {
            table: [repr(row) for row in connection.execute(f"SELECT * FROM {table}")]
            for (table,) in tables
        }
    rows["meta"] = [row for row in rows["meta"] if "created_at" not in row]
    return rows


def test_one_worker_two_and_as_many_as_it_takes_give_the_same(dumps: Path, tmp_path: Path) -> None:
    name = "ddp2_statistics"
    config = BuildConfig(dumps / name / "step0", dumps / name / "step1")
    one, two, chosen = (
        content(build(config, tmp_path / str(workers), workers=workers).path)
        for workers in (1, 2, None)
    )
    assert len(one["node"]) > 1000
    assert one == two == chosen


@pytest.mark.parametrize(
    ("size", "has_tensors", "expected"), [(10, False, True), (10, True, False), (51, False, False)]
)
def test_processes_are_started_only_for_much_to_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    has_tensors: bool,
    expected: bool,
) -> None:
    monkeypatch.setattr(run, "_SMALL", 100)
    jobs = []
    for rank in range(2):
        directory = write_dump(tmp_path / str(rank), {"Torch.a.0.forward": forward([], [tensor()])})
        (directory / "dump.json").write_bytes(b" " * size)
        if has_tensors:
            (directory / "dump_tensor_data").mkdir()
        jobs.append(PairJob(0, rank, directory, None))
    assert run._are_small(jobs) is expected


_ASKED = """
import sys, threading
from msprobe_builder.base.program import begin_program
from msprobe_builder.pipeline.executors.processes import _start_method
{before}
print(_start_method())
"""
_THREAD = "threading.Thread(target=threading.Event().wait, daemon=True).start()"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere all begin fresh")
@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("begin_program()", "fork"),
        ("", "spawn"),
        (f"begin_program(); {_THREAD}", "spawn"),
        ("begin_program(); sys.modules['torch'] = threading", "spawn"),
    ],
    ids=["a program of ours", "somebody else's", "with a thread", "with torch"],
)
def test_workers_are_copies_of_a_program_of_ours_that_does_nothing_else(
    before: str, expected: str
) -> None:
    asked = [sys.executable, "-c", _ASKED.format(before=before)]
    told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    assert told.strip() == expected


_BUILT = """
import os, sys
from msprobe_builder.command.main import main
status = main()
told = open("/proc/self/status").read()
print(told.partition("Threads:")[2].split()[0], os.environ.get("OPENBLAS_NUM_THREADS"))
sys.exit(status)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody tells how many there are")
@pytest.mark.parametrize("asked", [None, "2"])
def test_a_build_starts_no_threads_that_have_nothing_to_do(
    dumps: Path, tmp_path: Path, asked: str | None
) -> None:
    """Those of numpy's linear algebra spin for a while; whoever asks for some is left alone."""
    sides = [str(dumps / "ddp2_statistics" / step / "rank0") for step in ("step0", "step1")]
    command = [sys.executable, "-c", _BUILT, *sides, "-o", str(tmp_path), "--quiet"]
    environment = {name: value for name, value in os.environ.items() if name not in _ALL}
    environment |= {} if asked is None else {_THREADS: asked}
    told = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    threads, left = told.stdout.split()
    assert left == str(asked)
    if asked is None:
        assert threads == "1"


_THREADS = "OPENBLAS_NUM_THREADS"
_ALL = (_THREADS, "OMP_NUM_THREADS", "GOTO_NUM_THREADS")  # that it listens to
