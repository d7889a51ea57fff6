"""What ``--watch-ranks`` costs beside recording alone: two ranks of a transformer over gloo.

Run it as ``python benchmarks/watching_ranks.py``; runs with and without alternate, and the CPU time
of recorded steps counts, of all threads of both ranks. The first recorded step is left out.
"""

# mypy: disable-error-code="no-untyped-call"
# torch is typed in part only.

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist
from torch import nn

_RUN = "import sys; from msprobe_collector.run.command import main; sys.exit(main())"
_LAUNCH = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")
_FIRST = 2  # recorded step


def train(width: int, layers: int, steps: int) -> None:
    """One rank of the training; prints the CPU seconds of its steps."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.1, batch_first=True)
    model = nn.parallel.DistributedDataParallel(
        nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    )
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    torch.manual_seed(100 + dist.get_rank())
    taken = []
    for _ in range(steps + 1):
        words = torch.randn(4, 64, width)
        began = time.process_time()
        model(words).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        taken.append(time.process_time() - began)
    # What is compared last is compared when the model is called again.
    sys.stdout.write("seconds " + " ".join(f"{one:.4f}" for one in taken[_FIRST + 1 :]) + "\n")
    sys.stdout.flush()
    dist.destroy_process_group()


def seconds(options: list[str], sizes: list[str], folder: Path) -> float:
    """CPU seconds of a recorded step of both ranks."""
    name = str(len(list(folder.iterdir())))
    words = ["-o", str(folder / name), "--summary", "sketch", *options, "--"]
    command = [sys.executable, "-c", _RUN, *words, sys.executable, *_LAUNCH, __file__, *sizes]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    found = [float(word) for word in answer.stdout.split() if word != "seconds"]
    return sum(found) / len(found) * 2


def main() -> None:
    """Print the ratio of each pair of runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if "RANK" in os.environ:
        train(options.width, options.layers, options.steps)
        return
    steps = ["--steps", f"{_FIRST}-{options.steps - 1}"]
    sizes = ["--width", str(options.width), "--layers", str(options.layers)]
    sizes += ["--steps", str(options.steps)]
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            alone = seconds(steps, sizes, Path(folder))
            watched = seconds([*steps, "--watch-ranks"], sizes, Path(folder))
            ratios.append(watched / alone)
            print(f"recording {alone:.3f} CPU s, watching {watched:.3f}: {ratios[-1]:.2f}")
    print(f"median of the ratios: {median(ratios):.2f}")


if __name__ == "__main__":
    main()
