"""What recording costs: plain step against recorded step, ours and the reference collector's.

    python benchmarks/collector.py
    python benchmarks/collector.py --reference 8.3.3=/path/to/python --reference 26.2.0=…

A plain step and one of each way to record run in turn in one process, one thread: a ratio is of
two steps beside each other, and the median of all turns is shown, with its quartiles. Other work on
the machine slows both alike. The reference collector runs in the interpreter that is named, never
in ours, and is compared by its own ratios.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

REPOSITORY = Path(__file__).resolve().parent.parent


class Way(NamedTuple):
    """One way to record a step."""

    level: str
    task: str = "statistics"
    section: dict[str, Any] = {}  # noqa: RUF012 - never written to
    is_ours: bool = False  # the reference has nothing like it
    is_compiled: bool = True  # with the compiled module, where it is


WAYS = {
    "L0": Way("L0", "statistics", {"summary_mode": "statistics"}),
    "mix": Way("mix", "statistics", {"summary_mode": "statistics"}),
    "mix, sketch": Way("mix", "statistics", {"summary_mode": "sketch", "flow": False}, True),
    "mix, flow": Way("mix", "statistics", {"summary_mode": "statistics", "flow": True}, True),
    "mix, sketch, flow": Way("mix", "statistics", {"summary_mode": "sketch", "flow": True}, True),
    "mix, md5": Way("mix", "statistics", {"summary_mode": "md5"}),
    "mix, tensor": Way("mix", "tensor"),
    "mix, structure": Way("mix", "structure"),
    "L0, torch alone": Way("L0", "statistics", {"summary_mode": "statistics"}, True, False),
    "mix, torch alone": Way("mix", "statistics", {"summary_mode": "statistics"}, True, False),
    "mix, sketch, flow, torch alone": Way(
        "mix", "statistics", {"summary_mode": "sketch", "flow": True}, True, False
    ),
}


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


def resnet(widths: Sequence[int], depth: int, size: int) -> tuple[Any, Any]:
    """Residual blocks of convolutions and batch norms, as for small pictures."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, given: int, width: int) -> None:
            super().__init__()
            stride = 1 if given == width else 2
            self.conv1 = nn.Conv2d(given, width, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(width)
            self.relu = nn.ReLU()
            self.shortcut = nn.Conv2d(given, width, 1, stride) if stride > 1 else nn.Identity()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            inner = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
            return self.relu(inner + self.shortcut(x))

    given = widths[0]
    layers: list[nn.Module] = [nn.Conv2d(3, given, 3, 1, 1, bias=False)]
    for width in widths:
        for _ in range(depth):
            layers.append(Block(given, width))
            given = width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(given, 512)]
    return nn.Sequential(*layers), torch.rand(2, 3, size, size)


NETS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "4 blocks, width 128": lambda: blocks(128, 4, 32),
    "llama, 12 layers, width 256": lambda: llama(256, 12, 64),
    "resnet, 12 blocks, width 64 to 256": lambda: resnet((64, 128, 256), 4, 32),
}


def measure(net: str, tool: str, names: Sequence[str], turns: int) -> dict[str, list[float]]:
    """Seconds of CPU of each way in each turn, in a process of its own."""
    import logging

    import torch
    import torch.nn.functional as F  # noqa: N812

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model, data = NETS[net]()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    target = torch.randint(0, 512, (len(model(data).reshape(-1, 512)),))

    def step() -> None:
        F.cross_entropy(model(data).reshape(-1, 512), target).backward()
        optimizer.step()
        optimizer.zero_grad()

    sys.path.insert(0, str(REPOSITORY))
    package = "msprobe_collector" if tool == "ours" else "msprobe.pytorch"
    make_debugger = importlib.import_module(package).PrecisionDebugger
    loaded: Any = None
    if tool == "ours":
        loaded = importlib.import_module("msprobe_collector.one_pass.loaded")
        compiled = loaded.compiled
    logging.disable(logging.WARNING)
    taken: dict[str, list[float]] = {name: [] for name in ("plain", *names)}

    def timed(name: str, run: Callable[[], None]) -> None:
        begin = time.process_time()
        run()
        taken[name].append(time.process_time() - begin)

    with tempfile.TemporaryDirectory() as top:
        for number, name in enumerate(names):
            way, folder = WAYS[name], Path(top, str(number))
            folder.mkdir()
            # All keys that the reference asks for.
            section = {"list": [], "scope": [], "data_mode": ["all"], **way.section}
            config = {
                "task": way.task,
                "level": way.level,
                "dump_path": str(folder / "dump"),
                "rank": [],
                "step": [],
                way.task: section,
            }
            (folder / "config.json").write_text(json.dumps(config))

        def recorded(debugger: Any) -> None:
            debugger.start(model)
            step()
            debugger.stop()
            debugger.step()

        step()
        debugger: Any = None
        for _ in range(turns):
            timed("plain", step)
            for number, name in enumerate(names):
                if loaded is not None:
                    loaded.compiled = compiled if WAYS[name].is_compiled else None
                # A process has one debugger. That of the reference cannot be put in place of.
                if debugger is None or tool == "ours":
                    config_path = str(Path(top, str(number), "config.json"))
                    debugger = make_debugger(config_path=config_path)
                    recorded(debugger)  # what is made once is made now
                timed(name, lambda debugger=debugger: recorded(debugger))  # type: ignore[misc]
                if tool == "ours":
                    debugger.close()
    return taken


def measured(python: str, net: str, tool: str, names: Sequence[str], turns: int) -> dict[str, Any]:
    """The ratios of recorded to plain steps by way, and under "plain" its seconds."""
    found: dict[str, Any] = {}
    for some in [names] if tool == "ours" else [[name] for name in names]:
        command = [python, __file__, "--measure", net, tool, ";".join(some), str(turns)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{tool} failed at {', '.join(some)}:\n{done.stderr[-2000:]}")
        taken = json.loads(done.stdout.splitlines()[-1])
        found.setdefault("plain", taken["plain"])
        for name in some:
            pairs = zip(taken[name], taken["plain"], strict=True)
            found[name] = [recorded / plain for recorded, plain in pairs]
    return found


def shown(ratios: Sequence[float]) -> str:
    """The median and the quartiles."""
    if len(ratios) < 2:
        return f"{ratios[0]:.2f}"
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.2f} ({low:.2f}–{high:.2f})"


def main() -> None:
    """Measure and print one table, and with ``--write`` put it among the results."""
    parser = argparse.ArgumentParser(description="Measure what recording costs.")
    parser.add_argument("--reference", action="append", default=[], metavar="VERSION=PYTHON")
    parser.add_argument("--nets", nargs="*", default=list(NETS))
    parser.add_argument("--ways", nargs="*", default=list(WAYS))
    parser.add_argument("--turns", type=int, default=15, help="the reference takes a third of it")
    parser.add_argument("--write", action="store_true", help="into results/performance.md")
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        net, tool, names, turns = options.measure
        print(json.dumps(measure(net, tool, names.split(";"), int(turns))))
        return
    references = dict(one.split("=", 1) for one in options.reference)
    heads = "".join(f" {version} | added, of what it adds |" for version in references)
    table = [
        f"| network | way | plain ms | recorded / plain |{heads}",
        f"|---|---|--:|--:|{'--:|--:|' * len(references)}",
    ]
    print("\n".join(table))
    for net in options.nets:
        ours = measured(sys.executable, net, "ours", options.ways, options.turns)
        shared = [name for name in options.ways if not WAYS[name].is_ours]
        turns = max(2, options.turns // 3)
        theirs = {
            version: measured(python, net, "reference", shared, turns)
            for version, python in references.items()
        }
        plain = statistics.median(ours["plain"]) * 1e3
        for name in options.ways:
            cells = [net, name, f"{plain:.1f}", shown(ours[name])]
            for found in theirs.values():
                beside = found.get(name) or found.get("mix")
                if beside is None:
                    cells += ["", ""]
                    continue
                share = (statistics.median(beside) - 1) / (statistics.median(ours[name]) - 1)
                cells += [shown(beside) if name in found else "", f"1/{share:.1f}"]
            table.append(f"| {' | '.join(cells)} |")
            print(table[-1], flush=True)
    if options.write:
        from result_tables import write_tables

        write_tables("performance.md", "Recording", [table])


if __name__ == "__main__":
    main()
