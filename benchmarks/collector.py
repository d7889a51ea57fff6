"""What recording costs: plain step against recorded step, ours and the reference collector's.

    python benchmarks/collector.py
    python benchmarks/collector.py --reference /path/to/python   # with mindstudio-probe installed

Each measurement is the median CPU time of several recorded steps of one process with one thread,
so other work on the machine hardly shows; the reference collector runs in the interpreter that is
named, never in ours.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
LEVELS = ("L0", "L1", "mix")
KINDS = ("statistics", "sketch", "flow", "md5")
STEPS = 7


def blocks(width: int, layers: int, length: int) -> tuple[Any, Any]:
    """A stack of Linear-GELU blocks with attention, as in the reference's own benchmark."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ln1 = nn.LayerNorm(width)
            self.qkv = nn.Linear(width, 3 * width)
            self.out = nn.Linear(width, width)
            self.ln2 = nn.LayerNorm(width)
            self.fc1 = nn.Linear(width, 4 * width)
            self.fc2 = nn.Linear(4 * width, width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            batch, tokens, _ = x.shape
            q, k, v = (
                part.view(batch, tokens, 4, -1).transpose(1, 2)
                for part in self.qkv(self.ln1(x)).chunk(3, dim=-1)
            )
            scores = torch.softmax(q @ k.transpose(-1, -2) / (width // 4) ** 0.5, dim=-1)
            x = x + self.out((scores @ v).transpose(1, 2).reshape(batch, tokens, width))
            return x + self.fc2(F.gelu(self.fc1(self.ln2(x))))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(512, width)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.head = nn.Linear(width, 512)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            x = self.embed(tokens)
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    return Net(), torch.randint(0, 512, (2, length))


def llama(width: int, layers: int, length: int) -> tuple[Any, Any]:
    """The decoder of the tests in a larger size."""
    sys.path.insert(0, str(REPOSITORY))
    import torch

    from tests.collector import models

    models.WIDTH, models.VOCABULARY = width, 512
    return models.Decoder(layers=layers), torch.randint(0, 512, (2, length))


NETS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "4 blocks, width 128": lambda: blocks(128, 4, 32),
    "llama, 12 layers, width 256": lambda: llama(256, 12, 64),
}


def measure(net: str, tool: str, level: str, kind: str) -> dict[str, float]:
    """CPU seconds per step and the peak of memory in MB; runs in a process of its own."""
    import resource

    import torch
    import torch.nn.functional as F  # noqa: N812

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model, tokens = NETS[net]()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        logits = model(tokens).reshape(-1, 512)
        F.cross_entropy(logits, tokens.reshape(-1)).backward()
        optimizer.step()
        optimizer.zero_grad()

    def timed(run: Callable[[], None]) -> float:
        seconds = []
        for _ in range(STEPS):
            begin = time.process_time()
            run()
            seconds.append(time.process_time() - begin)
        return statistics.median(seconds)

    for _ in range(3):
        step()
    plain = timed(step)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if tool == "reference":
        from msprobe.pytorch import PrecisionDebugger  # type: ignore[import-not-found]
    else:
        sys.path.insert(0, str(REPOSITORY))
        from msprobe_collector import PrecisionDebugger
    folder = Path(tempfile.mkdtemp())
    config: dict[str, Any] = {
        "task": "statistics",
        "level": level,
        "dump_path": str(folder / "dump"),
        "rank": [],
    }
    section: dict[str, Any] = {"summary_mode": kind, "list": [], "scope": []}
    if kind == "flow":
        section |= {"summary_mode": "statistics", "flow": True}
    config |= {"step": [], "statistics": section}
    (folder / "config.json").write_text(json.dumps(config))
    debugger = PrecisionDebugger(config_path=str(folder / "config.json"))

    def recorded() -> None:
        debugger.start(model)
        step()
        debugger.stop()
        debugger.step()

    recorded()
    seconds = timed(recorded)
    idle = timed(step)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    shutil.rmtree(folder)
    return {"plain": plain, "recorded": seconds, "idle": idle, "memory": after - before}


def measured(python: str, *arguments: str) -> dict[str, float] | None:
    command = [python, __file__, "--measure", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
        return None
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what recording costs.")
    parser.add_argument("--reference", help="a Python that has mindstudio-probe and torch")
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(*options.measure)))
        return
    print("| network | level | plain ms | recorded ms | factor | idle | memory MB | reference |")
    print("|---|---|---|---|---|---|---|---|")
    for net in NETS:
        for kind in KINDS:
            for level in LEVELS:
                ours = measured(sys.executable, net, "ours", level, kind)
                theirs = None
                if options.reference:
                    theirs = measured(options.reference, net, "reference", level, kind)
                print(row(net, level, kind, ours, theirs), flush=True)


def row(
    net: str,
    level: str,
    kind: str,
    ours: dict[str, float] | None,
    theirs: dict[str, float] | None,
) -> str:
    name = level if kind == "statistics" else f"{level} {kind}"
    if ours is None:
        return f"| {net} | {name} | failed | | | | | |"
    plain, recorded = ours["plain"], ours["recorded"]
    against = ""
    if theirs is not None:
        overhead = theirs["recorded"] - theirs["plain"]
        share = (recorded - plain) / overhead
        against = f"{theirs['recorded'] / theirs['plain']:.1f} ×, ours costs 1/{1 / share:.1f}"
    return (
        f"| {net} | {name} | {plain * 1e3:.1f} | {recorded * 1e3:.1f} | {recorded / plain:.1f} × "
        f"| {ours['idle'] / plain:.2f} × | {ours['memory']:.0f} | {against} |"
    )


if __name__ == "__main__":
    main()
