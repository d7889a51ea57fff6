"""What looking at operators costs: python benchmarks/operators.py [STEPS].

CPU time of a training step under each mode, and of each command on the dump of one, as a multiple
of the same step without it; one thread, the middle of several rounds in which they take turns.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from msprobe_collector import PrecisionDebugger
from msprobe_operators import CompareWithCPU, NanInfTracker, PerturbOperators
from msprobe_operators.command import main as operators

MODES: dict[str, Callable[[], Any]] = {
    "none": nullcontext,
    "CompareWithCPU": lambda: CompareWithCPU(verbose=False),
    "CompareWithCPU, reference='cpu'": lambda: CompareWithCPU(verbose=False, reference="cpu"),
    "CompareWithCPU, sample='signature'": lambda: CompareWithCPU(verbose=False, sample="signature"),
    "CompareWithCPU, sample=20": lambda: CompareWithCPU(verbose=False, sample=20),
    "NanInfTracker": NanInfTracker,
    "PerturbOperators('noise')": PerturbOperators,
    "PerturbOperators('order')": lambda: PerturbOperators("order"),
    "PerturbOperators('precision')": lambda: PerturbOperators("precision"),
    "PerturbOperators('precision', handler='fix')": lambda: PerturbOperators(
        "precision", handler="fix"
    ),
}
COMMANDS = (
    ["check"],
    ["check", "--reference", "cpu"],
    ["perturb"],
    ["perturb", "--by", "order"],
    ["overflow"],
)
WIDTH, LAYERS, ROUNDS = 256, 4, 3


def main(steps: int) -> None:
    """Print a row for each mode."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0.0, batch_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, LAYERS), nn.Linear(WIDTH, 64))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    data = torch.randn(8, 64, WIDTH)

    def step() -> None:
        optimizer.zero_grad()
        logits = model(data).reshape(-1, 64)
        loss = functional.cross_entropy(logits, torch.arange(len(logits)) % 64)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    step()
    spent: dict[str, list[float]] = {name: [] for name in MODES}
    for _ in range(ROUNDS):
        for name, make in MODES.items():
            with make():
                step()  # what is seen for the first time is not counted
                began = time.process_time()
                for _ in range(steps):
                    step()
                spent[name].append((time.process_time() - began) / steps)
    spent |= _commands(model, step)
    plain = median(spent["none"])
    print(f"a step: {1000 * plain:.0f} ms")
    for name, seconds in spent.items():
        print(f"{name}: {median(seconds) / plain:.1f}")


def _commands(model: nn.Module, step: Callable[[], None]) -> dict[str, list[float]]:
    """CPU seconds of each command on a tensor dump of one step, in every round."""
    spent: dict[str, list[float]] = {}
    with TemporaryDirectory() as folder, Path(os.devnull).open("w") as nowhere:
        debugger = PrecisionDebugger(dump_path=folder, task="tensor", level="mix")
        debugger.start(model)
        step()
        debugger.stop()
        debugger.step()
        debugger.close()
        [dump] = Path(folder).rglob("dump.json")
        for number in range(ROUNDS):
            for command in COMMANDS:
                out = Path(folder) / f"{number}{'_'.join(command)}"
                began = time.process_time()
                with redirect_stdout(nowhere):
                    operators([command[0], str(dump), "-o", str(out), *command[1:]])
                name = f"msprobe-operators {' '.join(command)}"
                spent.setdefault(name, []).append(time.process_time() - began)
    return spent


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
