"""What looking at operators costs: python benchmarks/operators.py [STEPS].

CPU time of a training step under each mode as a multiple of the same step without it, one thread,
the middle of several rounds in which modes take turns.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from msprobe_operators import CompareWithCPU, NanInfTracker, PerturbOperators

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
}
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
    plain = median(spent["none"])
    print(f"a step: {1000 * plain:.0f} ms")
    for name, seconds in spent.items():
        print(f"{name}: {median(seconds) / plain:.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
