"""MindSpore trainings of three steps that are recorded and killed meanwhile."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, mint, nn

from msprobe_collector.mindspore import PrecisionDebugger, save, save_grad, step
from tests.reliability.killing import telling


class Net(nn.Cell):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.up, self.down = mint.nn.Linear(4, 8), mint.nn.Linear(8, 2)
        self.saves = False

    def construct(self, x: Tensor) -> Tensor:
        x = mint.tanh(self.up(x))
        if self.saves:
            save(self.folder / "saved", "x", x)
            x = save_grad(self.folder / "saved", "x", x)
        return self.down(x)


def train_and_tell(told: Connection, name: str, folder: Path, deadly: int) -> None:
    """Record one of the trainings; see :func:`telling`."""
    os.chdir(folder)
    ms.set_device("CPU")
    ms.set_context(mode=ms.PYNATIVE_MODE)
    with telling(told, 100, deadly):
        TRAININGS[name](folder)


def _train(folder: Path, saves: bool = False, **config: Any) -> None:
    task = config.get("task", "statistics")
    text = json.dumps({"dump_path": str(folder / "dump"), "task": task, "level": "mix", **config})
    (folder / "config.json").write_text(text)
    net = Net(folder)
    net.saves = saves
    optimizer = nn.Adam(net.trainable_params(), learning_rate=0.1)
    derive = ms.value_and_grad(lambda x: net(x).square().mean(), None, optimizer.parameters)
    debugger = None if saves else PrecisionDebugger(str(folder / "config.json"))
    follows = task in ("grad_probe", "monitor")
    if debugger and follows:
        debugger.monitor(optimizer)
    for _ in range(3):
        if debugger and not follows:
            debugger.start(net)
        _, gradients = derive(Tensor(np.ones((3, 4), np.float32)))
        if debugger and not follows:
            debugger.stop()
            debugger.step()
        optimizer(gradients)
        if saves:
            step()
    if debugger:
        debugger.stop()
        debugger.close()


TRAININGS: dict[str, Callable[[Path], None]] = {
    "statistics": _train,
    "sketches": partial(_train, statistics={"summary_mode": "sketch"}),
    "tensors": partial(_train, task="tensor"),
    "tensor files": partial(_train, task="tensor", tensor={"layout": "files"}),
    "monitor": partial(_train, task="monitor", monitor={"formats": ["csv"]}),
    "gradients": partial(_train, task="grad_probe", grad_probe={"grad_level": "L2"}),
    "saves": partial(_train, saves=True),
}
