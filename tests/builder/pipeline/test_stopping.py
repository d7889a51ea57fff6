"""A build that is stopped or killed leaves no half database."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from msprobe_builder.pipeline.compare import PairJob, Report
from msprobe_builder.pipeline.executors.run import run_jobs
from msprobe_builder.pipeline.kept import Keeper
from msprobe_builder.pipeline.progress import Progress
from tests.builder.small_dumps import forward, tensor, write_dump

RANKS = 3


@pytest.fixture(scope="module")
def slow_config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison that takes long enough to be stopped in the middle."""
    folder = tmp_path_factory.mktemp("slow")
    calls = {
        f"Torch.add.{i}.forward": forward([tensor(i), tensor()], [tensor(i + 1)])
        for i in range(1500)
    }
    for rank in range(RANKS):
        write_dump(folder / "dump" / f"rank{rank}", calls)
    config = folder / "compare.json"
    path = str(folder / "dump")
    config.write_text(json.dumps({"npu_path": path, "bench_path": path}))
    return config


def start(config: Path, output: Path, workers: int) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "msprobe_builder.command.main",
        "-i",
        str(config),
        "-o",
        str(output),
    ]
    return subprocess.Popen(
        [*command, "--workers", str(workers)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(process: subprocess.Popen[str], word: str) -> str:
    """Read the progress until ``word`` comes; what was read."""
    assert process.stderr is not None
    read = ""
    for line in process.stderr:
        read += line
        if word in line:
            break
    return read


# The stages of one job in this process, of jobs in other processes, and of the last step.
MOMENTS = [
    (1, "read reference"),
    (1, "match"),
    (1, "store"),
    (1, "rank 1"),
    (2, "rank"),
    (2, "gather"),
]
TYPICAL = [(1, "store"), (2, "rank")]


@pytest.mark.parametrize(
    ("workers", "moment"),
    [one if one in TYPICAL else pytest.param(*one, marks=pytest.mark.slow) for one in MOMENTS],
)
def test_kill_leaves_nothing_that_looks_finished(
    slow_config: Path, tmp_path: Path, workers: int, moment: str
) -> None:
    with start(slow_config, tmp_path, workers) as process:
        wait_for(process, moment)
        os.killpg(process.pid, signal.SIGKILL)
    left = [path.name for path in tmp_path.iterdir()]
    assert all(name.startswith(".") for name in left)
    # Nothing that is left is in the way of the next build.
    with start(slow_config, tmp_path, workers) as process:
        process.communicate()
    assert process.returncode == 0
    assert len(list(tmp_path.glob("*.vis.db"))) == 1


@pytest.mark.parametrize(
    ("workers", "moment", "number"),
    [
        *((*one, signal.SIGTERM) for one in TYPICAL),
        *(
            pytest.param(*one, signal.SIGTERM, marks=pytest.mark.slow)
            for one in MOMENTS
            if one not in TYPICAL
        ),
        pytest.param(1, "match", signal.SIGINT, marks=pytest.mark.slow),
        (2, "rank", signal.SIGINT),
        (1, "match", signal.SIGHUP),
    ],
)
def test_stopping_leaves_nothing(
    slow_config: Path, tmp_path: Path, workers: int, moment: str, number: signal.Signals
) -> None:
    with start(slow_config, tmp_path, workers) as process:
        wait_for(process, moment)
        process.send_signal(number)
        _, said = process.communicate()
    if process.returncode == 0:  # it was faster
        assert [path.suffix for path in tmp_path.iterdir()] == [".db"]
    else:
        assert process.returncode == 1
        assert said.endswith("msprobe-build: Stopped; nothing was written.\n")
        assert "Traceback" not in said
        assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_removed_meanwhile_is_told_in_a_sentence(
    slow_config: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    with start(slow_config, output, 1) as process:
        wait_for(process, "read debug")
        shutil.rmtree(output)
        _, said = process.communicate()
    assert process.returncode == 1
    assert "Traceback" not in said
    assert f"msprobe-build: Cannot write the database into {output}: " in said


def test_workers_end_when_the_build_is_killed(slow_config: Path, tmp_path: Path) -> None:
    """They share the error stream: it ends only when all of them have."""
    with start(slow_config, tmp_path, 2) as process:
        wait_for(process, "rank")
        process.kill()
        assert process.stderr is not None
        reader = threading.Thread(target=process.stderr.read)
        reader.start()
        reader.join(timeout=60)
        is_alone = not reader.is_alive()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert is_alone


def dies_on_rank_1(job: PairJob, shard: Path, _: Report, __: Keeper) -> None:
    """Stands in for a build whose process is killed for lack of memory."""
    if job.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    shard.write_text(f"rank {job.rank}")


def test_a_killed_worker_costs_only_its_own_rank(tmp_path: Path) -> None:
    jobs = [PairJob(0, rank, tmp_path, None) for rank in range(4)]
    outcomes = run_jobs(jobs, tmp_path, dies_on_rank_1, Progress(1, quiet=True), 2)
    problems = {outcome.job.rank: outcome.problem for outcome in outcomes}
    assert [rank for rank, problem in problems.items() if problem] == [1]
    assert "step 0 rank 1 was killed" in str(problems[1])
    written = [outcome.shard.read_text() for outcome in outcomes if outcome.problem is None]
    assert written == ["rank 0", "rank 2", "rank 3"]
    assert len(list(tmp_path.glob("*.shard"))) == 3
