"""What is killed: programs that tell how far they are, so that a reader may kill them there."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from tests.collector.recording import write_config
from tests.plugin.changing import change, operation, report
from tests.plugin.conftest import client_of, node

FINE = (0, 4)
_TOUCHING = frozenset(
    "open write writelines pwrite ftruncate truncate rename replace link unlink remove mkdir rmdir"
    " fsync close flush execute executemany executescript commit backup chmod".split()
)


def build_and_tell(told: Connection, npu: Path, bench: Path, out: Path) -> None:
    """Build a comparison; a dot for every 5,000 calls and returns of Python, "!" at its end."""
    with telling(told, 5000):
        build(BuildConfig(npu, bench), out, name="x", workers=1)


def run_and_tell(told: Connection, words: list[str], folder: Path, deadly: int) -> None:
    """Run a command in a folder; see :func:`telling`, with a dot for every 200 calls."""
    os.chdir(folder)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    with telling(told, 200, deadly):
        assert main(words) in FINE


def train_and_tell(told: Connection, name: str, folder: Path, deadly: int) -> None:
    """Record a training of three steps in a folder; see :func:`telling`."""
    os.chdir(folder)
    with telling(told, 100, deadly):
        TRAININGS[name](folder)


@contextmanager
def telling(told: Connection, calls: int, deadly: int = 0) -> Iterator[None]:
    """A dot for so many calls and returns of Python; at its end how often files were touched, "!".

    The process kills itself where it calls, or comes back from, what touches a file or a database
    for the ``deadly``-th time.
    """
    count = touched = 0

    def trace(_frame: FrameType, event: str, function: object) -> None:
        nonlocal count, touched
        count += 1
        if event in ("c_call", "c_return") and getattr(function, "__name__", "") in _TOUCHING:
            touched += 1
            if touched == deadly:
                os.kill(os.getpid(), signal.SIGKILL)
        if count % calls == 0:
            os.write(told.fileno(), b".")

    threading.setprofile(trace)  # of those that begin later
    sys.setprofile(trace)
    yield
    sys.setprofile(None)
    os.write(told.fileno(), f"{touched}!".encode())


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
