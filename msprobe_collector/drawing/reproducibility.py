"""Write down who draws random numbers, and have every call draw from the same state."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import csv
import logging
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from msprobe_collector.drawing.follow import DrawnCall, follow
from msprobe_collector.drawing.pytorch import torch_drawing
from msprobe_collector.errors import CollectorError
from msprobe_collector.process import process_rank
from msprobe_collector.record.stack import Stacks
from msprobe_collector.report import speak_up

_log = logging.getLogger("msprobe_collector")
# What other recorders call who draws.
_LIBRARIES = {
    "random": "python_random",
    "numpy.random": "numpy_random",
    "torch": "torch_random",
    "torch.Tensor": "tensor_random",
    "torch.nn.functional": "functional_random",
}
_DEVICES = ("cuda", "npu", "xpu")


@cache
def random_save(output_path: str | Path = "./output") -> None:
    """Write each call that draws, with its stack, into a file of this process, from now on.

    It is ``random_rank{rank}_{time}.csv`` of ``output_path``, with the number of the process in
    place of the rank until that is known. CollectorError where nothing can be written.
    """
    speak_up()
    follow(_Draws(Path(output_path)).write, torch_drawing())


@cache
def same_state() -> None:
    """Have each call draw as the first one would, whatever was drawn before."""
    state = _state()

    def draw(call: DrawnCall, make: Callable[[], Any]) -> Any:
        if call.is_seed:
            return make()
        _restore(state)
        try:
            return make()
        finally:
            _restore(state)

    follow(draw, torch_drawing())


class _Draws:
    """The file of one process."""

    def __init__(self, folder: Path) -> None:
        self._counts: Counter[str] = Counter()
        self._stacks = Stacks()
        self._rank = process_rank()
        name = f"proc{os.getpid()}" if self._rank is None else f"rank{self._rank}"
        folder = folder.absolute()  # a training may change its directory
        self._path = folder / f"random_{name}_{time.strftime('%Y%m%d%H%M%S')}.csv"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._append(("api_name", "stack"), "utf-8-sig")
        except OSError as error:
            raise CollectorError(f"{folder} cannot be written: {error.strerror}.") from error
        _log.info("Calls that draw random numbers are written to %s.", self._path)

    def write(self, call: DrawnCall, make: Callable[[], Any]) -> Any:
        """Make a call, and write it down."""
        result = make()
        if not call.is_seed:
            name = f"{_LIBRARIES[call.owner]}.{call.function}"
            lines = self._stacks.lines(self._stacks.capture(call.frame))
            try:
                self._name_by_rank()
                self._append(
                    (f"{name}.{self._counts[name]}", "".join(f"{one} \n" for one in lines))
                )
            except OSError as error:
                _log.warning("%s was not written: %s.", name, error.strerror)
            self._counts[name] += 1
        return result

    def _name_by_rank(self) -> None:
        if self._rank is None and (rank := process_rank()) is not None:
            self._rank = rank
            name = self._path.name.replace(f"proc{os.getpid()}", f"rank{rank}")
            self._path = self._path.rename(self._path.with_name(name))

    def _append(self, row: tuple[str, str], encoding: str = "utf-8") -> None:
        # Opened anew each time: a process may be copied or killed at any moment.
        with self._path.open("a", encoding=encoding, newline="") as file:
            csv.writer(file).writerow(row)


def _state() -> dict[str, Any]:
    found = {"python": random.getstate(), "numpy": np.random.get_state()}
    found["torch"] = torch.get_rng_state()
    for kind in _DEVICES:
        device = getattr(torch, kind, None)
        if device is not None and device.is_available():
            found[kind] = device.get_rng_state_all()
    return found


def _restore(state: dict[str, Any]) -> None:
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    for kind in _DEVICES:
        if kind in state:
            getattr(torch, kind).set_rng_state_all(state[kind])
