"""What every test may ask for: real dumps, a database built from them, a running TensorBoard."""

from __future__ import annotations

import contextlib
import json
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine is slow, not wrong.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

REPOSITORY = Path(__file__).resolve().parent.parent
START_SECONDS = 120

BuildDatabase = Callable[..., Path]
StartTensorBoard = Callable[..., str]


@pytest.fixture(scope="session")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with every dump of tests/data: dumps / "llama_statistics" / "step0" / "rank"."""
    folder = tmp_path_factory.mktemp("dumps")
    for archive in sorted((REPOSITORY / "tests" / "data").glob("*.tar.xz")):
        unpack = [sys.executable, "-m", "tarfile", "--extract", str(archive), str(folder)]
        subprocess.run(unpack, check=True)
    return folder


@pytest.fixture(scope="session")
def build_database(tmp_path_factory: pytest.TempPathFactory) -> BuildDatabase:
    """Run msprobe-build: build_database(npu, bench=None, *options) is the .vis.db it wrote.

    Keywords are further keys of compare.json.
    """

    def build(npu: Path, bench: Path | None = None, *options: str, **keys: object) -> Path:
        folder = tmp_path_factory.mktemp("built")
        request = {"npu_path": str(npu), "is_print_compare_log": False, **keys}
        if bench is not None:
            request["bench_path"] = str(bench)
        compare = folder / "compare.json"
        compare.write_text(json.dumps(request), encoding="utf-8")
        subprocess.run(
            [
                *(sys.executable, "-m", "msprobe_builder.cli"),
                *("-i", str(compare), "-o", str(folder / "out"), *options),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        [database] = (folder / "out").glob("*.vis.db")
        return database

    return build


@pytest.fixture(scope="session")
def demo_database(dumps: Path, build_database: BuildDatabase) -> Path:
    """The comparison "make demo" shows: a wrong attention scale against the correct run."""
    return build_database(
        dumps / "llama_statistics_wrong_attention_scale" / "step0" / "rank",
        dumps / "llama_statistics" / "step0" / "rank",
    )


@pytest.fixture(scope="session")
def tensorboard_server() -> Iterator[StartTensorBoard]:
    """Start TensorBoard: tensorboard_server(logdir, *options) is its address, ending in a slash.

    The same arguments give the same server; all of them end with the session.
    """
    running: dict[tuple[str, ...], str] = {}
    with contextlib.ExitStack() as servers:

        def start(logdir: Path, *options: str) -> str:
            arguments = ("--logdir", str(logdir), *options)
            if arguments not in running:
                command = [sys.executable, "-m", "tensorboard.main", *arguments]
                running[arguments] = servers.enter_context(run_tensorboard(command))
            return running[arguments]

        yield start


@contextlib.contextmanager
def run_tensorboard(command: list[str]) -> Iterator[str]:
    """Run a TensorBoard command on a free port and yield the address it prints."""
    host = () if "--bind_all" in command else ("--host", "localhost")
    process = subprocess.Popen(
        [*command, *host, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    output = process.stdout
    lines: list[str] = []
    addresses: queue.Queue[str | None] = queue.Queue()

    def listen() -> None:
        for line in output:
            lines.append(line)
            if found := re.search(r"at (http://\S+)", line):
                addresses.put(found[1].rstrip("/") + "/")
        addresses.put(None)

    listener = threading.Thread(target=listen)
    listener.start()
    try:
        address = addresses.get(timeout=START_SECONDS)
        assert address is not None, "TensorBoard did not start:\n" + "".join(lines)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=START_SECONDS)
        listener.join()
