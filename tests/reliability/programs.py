"""What is killed: programs that tell how far they are, so that a reader may kill them there."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn

from msprobe_builder import BuildConfig, build
from msprobe_builder.command.main import main
from msprobe_collector import ConfigChecker, PrecisionDebugger, SingleSave
from msprobe_collector.run.follow import Follower, record_training
from msprobe_collector.run.settings import Settings
from msprobe_collector.run.trace import Trace
from tests.collector.recording import write_config
from tests.plugin.changing import change, operation, report
from tests.plugin.conftest import client_of, node
from tests.reliability.killing import telling

FINE = (0, 4)
OURS = ("msprobe_", "tb_graph_ascend")
Command = Callable[[list[str]], int]


def build_and_tell(told: Connection, npu: Path, bench: Path, out: Path) -> None:
    """Build a comparison; a dot for every 5,000 calls and returns of Python, "!" at its end."""
    with telling(told, 5000):
        build(BuildConfig(npu, bench), out, name="x", workers=1)


def run_and_tell(
    told: Connection, words: list[str], folder: Path, deadly: int, run: Command = main
) -> None:
    """Run a command in a folder; see :func:`telling`, with a dot for every 200 calls.

    A command that refuses says "?": killing it would prove nothing. Its temporary files lie in
    the folder, too.
    """
    os.chdir(folder)
    tempfile.tempdir = str(folder / "tmp")
    Path(tempfile.tempdir).mkdir(exist_ok=True)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    with telling(told, 200, deadly):
        if run(words) not in FINE:
            os.write(told.fileno(), b"?")


def run_and_tell_readers(told: Connection, run: Callable[[], object], folder: Path) -> None:
    """Run something in a folder; a line for each module of ours that has opened a file there."""
    os.chdir(folder)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    sys.addaudithook(partial(_tell_reader, told.fileno(), str(folder), set()))
    run()


def _tell_reader(told: int, folder: str, seen: set[str], event: str, arguments: Any) -> None:
    """Python's own account of what is opened, whatever it is called by and in whose code."""
    if event not in ("open", "sqlite3.connect") or not isinstance(arguments[0], str | bytes | Path):
        return
    path = os.fsdecode(arguments[0])
    is_inside = os.path.realpath(path.removeprefix("file:")).startswith(folder)
    is_emptied = event == "open" and arguments[2] & (os.O_WRONLY | os.O_TRUNC | os.O_EXCL)
    if path == ":memory:" or is_emptied or not is_inside:
        return
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        if name.startswith((*OURS, "tests.")):
            if name not in seen and name.startswith(OURS):
                seen.add(name)
                os.write(told, f"{name}\n".encode())
            return
        frame = frame.f_back


def train_and_tell(told: Connection, name: str, folder: Path, deadly: int) -> None:
    """Record a training of three steps in a folder; see :func:`telling`."""
    os.chdir(folder)
    with telling(told, 100, deadly):
        TRAININGS[name](folder)


def _model() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4))
    return model, torch.optim.Adam(model.parameters())


def _steps(model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[int]:
    for step in range(3):
        yield step
        model(torch.full((4, 8), step + 1.0)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def _record(folder: Path, **config: Any) -> None:
    model, optimizer = _model()
    write_config(folder, **config)
    debugger = PrecisionDebugger(config_path=folder / "config.json")
    for _ in _steps(model, optimizer):
        debugger.start(model)
        model(torch.ones(4, 8)).sum().backward()
        debugger.stop()
        debugger.step()
    debugger.close()


def _monitor(folder: Path) -> None:
    model, optimizer = _model()
    write_config(folder, monitor={"formats": ["csv", "parquet", "tensorboard"]})
    debugger = PrecisionDebugger(config_path=folder / "config.json")
    debugger.monitor(model)
    for _ in _steps(model, optimizer):
        pass
    debugger.close()


def _gradients(folder: Path) -> None:
    model, optimizer = _model()
    section = {"grad_level": "L2", "param_list": [], "bounds": [-1, 0, 1]}
    write_config(folder, task="grad_probe", grad_probe=section)
    debugger = PrecisionDebugger(config_path=folder / "config.json")
    debugger.monitor(model)
    for _ in _steps(model, optimizer):
        pass
    debugger.close()


def _settings(folder: Path) -> None:
    model, optimizer = _model()
    checker = ConfigChecker(model, output_zip_path=folder / "pack.zip")
    for _ in _steps(model, optimizer):
        pass
    del checker


def _followed(folder: Path) -> None:
    """As msprobe-run records a training that knows nothing of it."""
    follower = record_training(folder / "dump", step=[0, 1, 2])
    model, optimizer = _model()
    for _ in _steps(model, optimizer):
        pass
    follower.stop()


def _traced(folder: Path) -> None:
    """The same, one line for each step."""

    def make() -> PrecisionDebugger:
        return PrecisionDebugger(dump_path=folder / "dump", step=[0, 1, 2])

    follower = Follower(make, Settings(trace=True), None, partial(Trace, folder / "dump"))
    follower.install()
    model, optimizer = _model()
    for _ in _steps(model, optimizer):
        pass
    follower.stop()


def _single_saves(folder: Path) -> None:
    saver = SingleSave(folder / "saved")
    for step in range(3):
        saver.save({"tag": {"a": torch.full((8, 8), float(step)), "b": torch.ones(3)}})
        saver.step()


TRAININGS: dict[str, Callable[[Path], None]] = {
    "statistics": _record,
    "sketches": partial(_record, statistics={"summary_mode": "sketch"}),
    "tensors": partial(_record, task="tensor"),
    "tensor files": partial(_record, task="tensor", tensor={"layout": "files"}),
    "monitor": _monitor,
    "gradients": _gradients,
    "settings": _settings,
    "single saves": _single_saves,
    "msprobe-run": _followed,
    "trace": _traced,
}


def unmatch_and_tell(told: Connection, path: Path, first: int) -> None:
    """Unmatch all pairs from a node on: a dot before each, its name once that was answered."""
    ask = client_of(path.parent)
    for index in range(first, 600):
        detail = node(ask, file=path.name, index=index)
        if detail.HasField("bench"):
            os.write(told.fileno(), b".")
            report(change(ask, path.name, operation(index, detail.bench.index, "UNMATCH")))
            os.write(told.fileno(), detail.npu.name.encode() + b"\n")
