"""On a cluster: a real scheduler, real workers, one of them killed, and the same database."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from msprobe_builder import BuildConfig, BuildError, UsageError, build
from msprobe_builder.command.main import main
from msprobe_builder.pipeline.compare import PairJob, Report
from msprobe_builder.pipeline.executors.cluster import _connected
from msprobe_builder.pipeline.executors.run import run_jobs
from msprobe_builder.pipeline.kept import Keeper
from msprobe_builder.pipeline.progress import Progress
from tests.builder.pipeline.test_workers import content
from tests.builder.small_dumps import forward, tensor, write_dump
from tests.conftest import REPOSITORY

pytest.importorskip("distributed")
RANKS = 6


@contextmanager
def process(*arguments: str, **variables: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A program of dask's and the address that it says it has."""
    command = [sys.executable, "-m", "distributed.cli." + arguments[0], *arguments[1:]]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), **variables}
    with (
        TemporaryDirectory() as folder,
        subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env=environment, cwd=folder
        ) as running,
    ):
        try:
            assert running.stderr is not None
            said = ""
            for line in running.stderr:
                said += line
                if found := re.search(r"(?:Scheduler at|Start worker at):\s+(tcp://\S+)", line):
                    break
            else:
                pytest.fail(said)
            yield running, found[1]
        finally:
            running.kill()


@contextmanager
def cluster(workers: int, **variables: str) -> Iterator[tuple[str, list[subprocess.Popen[str]]]]:
    """A scheduler's address and so many worker processes, which nobody starts again."""
    with ExitStack() as stack:
        _, address = stack.enter_context(
            process("dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        )
        options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1"]
        started = [
            stack.enter_context(process("dask_worker", address, *options, **variables))[0]
            for _ in range(workers)
        ]
        yield address, started


@pytest.fixture
def config(tmp_path: Path) -> BuildConfig:
    for side, shift in (("npu", 1.0), ("bench", 1.5)):
        for rank in range(RANKS):
            calls = {
                f"Torch.add.{i}.forward": forward([tensor(i)], [tensor(i + shift + rank)])
                for i in range(300)
            }
            write_dump(tmp_path / side / f"rank{rank}", calls)
    return BuildConfig(tmp_path / "npu", tmp_path / "bench")


@pytest.mark.slow
def test_one_of_two_workers_is_killed_in_the_middle(config: BuildConfig, tmp_path: Path) -> None:
    request = tmp_path / "compare.json"
    request.write_text(
        json.dumps({"npu_path": str(config.npu_path), "bench_path": str(config.bench_path)})
    )
    serial = content(build(config, tmp_path / "serial", workers=1).path)
    out = tmp_path / "out"
    with cluster(2) as (address, [first, _]):
        command = [sys.executable, "-m", "msprobe_builder.command.main", "-i", str(request)]
        command += ["-o", str(out), "--scheduler", address]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
            assert running.stderr is not None
            said = ""
            for line in running.stderr:
                said += line
                if "step 0 rank" in line:
                    break
            first.send_signal(signal.SIGKILL)
            said += running.stderr.read()
        assert running.returncode == 0, said
    assert said.count("step 0 rank") == RANKS
    [database] = out.iterdir()
    assert content(database) == serial


def dies_on_rank_1(job: PairJob, shard: Path, _: Report, __: Keeper) -> None:
    if job.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    shard.write_text(f"rank {job.rank}")


@pytest.mark.slow
def test_a_rank_that_kills_its_workers_is_left_out(tmp_path: Path) -> None:
    jobs = [PairJob(0, rank, tmp_path, None) for rank in range(4)]
    progress = Progress(1, quiet=True)
    with cluster(5, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="1") as (address, _):
        outcomes = run_jobs(jobs, tmp_path, dies_on_rank_1, progress, scheduler=address)
    problems = {outcome.job.rank: outcome.problem for outcome in outcomes}
    assert [rank for rank, problem in problems.items() if problem] == [1]
    assert "step 0 rank 1 was killed" in str(problems[1])


@pytest.mark.slow
def test_a_cluster_of_this_machine(config: BuildConfig, tmp_path: Path) -> None:
    (tmp_path / "bench" / "rank2" / "dump.json").write_text("{")
    serial = build(config, tmp_path / "serial", workers=1)
    here = build(config, tmp_path / "here", scheduler="local:2")
    assert here.failed == serial.failed
    assert [place.rank for place, _ in here.failed] == [2]
    assert content(here.path) == content(serial.path)


@pytest.mark.slow
def test_workers_of_another_kind_are_refused(config: BuildConfig, tmp_path: Path) -> None:
    other = tmp_path / "other" / "msprobe_builder"
    other.parent.mkdir()
    shutil.copytree(REPOSITORY / "msprobe_builder", other)
    version = other / "base" / "version.py"
    version.write_text(version.read_text().replace('"0.', '"9.'))
    with (
        cluster(1, PYTHONPATH=str(other.parent)) as (address, _),
        pytest.raises(
            BuildError, match=r"runs msprobe-graph 9\..*this is msprobe-graph 0\..*alike"
        ),
    ):
        build(config, tmp_path / "out", scheduler=address)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("word", ["local:0", "local:", "host:8786", "tcp//host", "local:x"])
def test_a_scheduler_is_an_address_or_a_number(
    config: BuildConfig, tmp_path: Path, word: str
) -> None:
    with pytest.raises(UsageError, match=r"neither an address \(tcp://HOST:8786\) nor local:N"):
        build(config, tmp_path / "out", scheduler=word)


def test_workers_are_counted_by_one_of_both(tmp_path: Path) -> None:
    options = ["-i", str(tmp_path / "x"), "-o", str(tmp_path), "--workers", "2"]
    assert main([*options, "--scheduler", "local:2"]) == 2


def test_a_scheduler_that_is_not_there(
    config: BuildConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from msprobe_builder.pipeline.executors import cluster as module

    monkeypatch.setattr(module, "_CONNECT_SECONDS", 1)
    with pytest.raises(BuildError, match=r"Cannot reach the scheduler tcp://127\.0\.0\.1:1"):
        build(config, tmp_path / "out", scheduler="tcp://127.0.0.1:1")


@pytest.mark.parametrize(
    "greeting", [b"", b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\1" * 7]
)
def test_whoever_is_no_scheduler_is_not_waited_for(
    config: BuildConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, greeting: bytes
) -> None:
    """A peer that listens and says nothing, or something else, and keeps the connection."""
    from msprobe_builder.pipeline.executors import cluster as module

    monkeypatch.setattr(module, "_CONNECT_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        peers = []

        def answer() -> None:
            with suppress(OSError):  # the server is closed in the end
                while True:
                    peers.append(server.accept()[0])
                    peers[-1].sendall(greeting)

        answering = threading.Thread(target=answer)
        answering.start()
        with pytest.raises(BuildError, match=rf"{address}.* correct the address"):
            build(config, tmp_path / "out", scheduler=address)
        server.shutdown(socket.SHUT_RDWR)
        answering.join()
        for peer in peers:
            peer.close()
    assert list((tmp_path / "out").iterdir()) == []


def test_a_cluster_of_our_own_serves_no_pages() -> None:
    """Dask's servers listen also without a dashboard."""
    pytest.importorskip("psutil")
    # What tests before it left open in this process (a store of torch's, say) is not Dask's.
    before = _listening()
    with _connected("local:1") as client:
        assert client.submit(sum, [1, 2]).result() == 3
        listening = _listening() - before
        assert listening
        assert {host for host, _ in listening} <= {"127.0.0.1", "::1"}
        for host, port in listening:
            with pytest.raises((HTTPException, OSError)):
                ask_for_a_page(host, port)


def _listening() -> set[tuple[str, int]]:
    """Where this process and its children listen."""
    psutil = pytest.importorskip("psutil")
    own = psutil.Process()
    return {
        (one.laddr.ip, one.laddr.port)
        for process in (own, *own.children(recursive=True))
        for one in process.net_connections("inet")
        if one.status == psutil.CONN_LISTEN
    }


def ask_for_a_page(host: str, port: int) -> None:
    connection = HTTPConnection(host, port, timeout=3)
    connection.request("GET", "/info/main/workers.html")
    connection.getresponse()
