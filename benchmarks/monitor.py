"""What the monitor costs: steps of a model of 100 million parameters on the CPU, with and without.

Run it as ``python benchmarks/monitor.py``; steps with and without alternate, so that both see the
same machine, and the median of the differences counts. On a machine with other jobs the difference
of two steps says little; what the monitor's own functions take is told apart therefore, and what
each pass over memory takes by itself.
"""

# mypy: disable-error-code="no-untyped-call"
# torch is typed in part only.

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import nn

from msprobe_collector import PrecisionDebugger
from msprobe_collector.monitor import hooks, monitor
from msprobe_collector.monitor.measure import measure

WIDTH, LAYERS, HEADS, VOCABULARY = 768, 12, 12, 20_000


class Model(nn.Module):
    """A decoder of about 100 million parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """The logits of every word."""
        logits: torch.Tensor = self.head(self.layers(self.embed(words)))
        return logits


def step(model: Model, optimizer: torch.optim.Optimizer, words: torch.Tensor, parts: int) -> float:
    """CPU seconds of one training step, of all threads: other jobs disturb them less."""
    began = time.process_time()
    for part in words.chunk(parts):
        loss = nn.functional.cross_entropy(model(part).flatten(0, 1), part.flatten())
        (loss / parts).backward()
    optimizer.step()
    optimizer.zero_grad()
    return time.process_time() - began


class Inside:
    """CPU seconds spent in what the monitor is called for."""

    def __init__(self) -> None:
        self.seconds = 0.0
        for owner, names in (
            (hooks.Hooks, ("_guarded",)),
            (monitor.Monitor, ("_before_step", "_after_step")),
        ):
            for name in names:
                setattr(owner, name, self._timed(getattr(owner, name)))

    def _timed(self, function: Callable[..., None]) -> Callable[..., None]:
        def timed(*given: Any) -> None:
            began = time.process_time()
            function(*given)
            self.seconds += time.process_time() - began

        return timed


def show_passes() -> None:
    """What one pass over 200 MB takes, of which only the first waits for memory in a record."""
    values = torch.randn(50_000_000)

    def equal(piece: torch.Tensor) -> int:
        return int(np.count_nonzero(piece.numpy() == 0))

    passes: dict[str, Callable[[torch.Tensor], object]] = {
        "norm": torch.linalg.vector_norm,
        "sum": torch.sum,
        "largest": torch.amax,
        "smallest": torch.amin,
        "zeros": equal,
    }
    pieces = values.split(1 << 17)
    for name, function in passes.items():
        print(f"{name}: {_speed(pieces, function)}")
    print(f"all of them: {_speed([values], measure)}")


def _speed(tensors: Sequence[torch.Tensor], function: Callable[[torch.Tensor], object]) -> str:
    taken = []
    for _ in range(5):
        began = time.process_time()
        for tensor in tensors:
            function(tensor)
        taken.append(time.process_time() - began)
    return f"{sum(one.nbytes for one in tensors) / min(taken) / 1e9:.1f} GB/s"


def _config(folder: Path, every: int | None, parts: int, *, sketches: bool) -> Path:
    """Everything at each step, or at each n-th the boundaries: blocks, logits and parameters."""
    record = {
        "activation": ["layers.layers.*", "head"],
        "gradient": ["*"],
        "weight": ["*"],
        "learning_rate": ["*"],
    }
    settings: dict[str, Any] = {"every": 2, "record": record} if every else {}
    settings["sketches"] = sketches
    settings["micro_batches"] = parts > 1
    folder.mkdir()
    path = folder / "config.json"
    content = {"task": "monitor", "dump_path": str(folder / "run"), "monitor": settings}
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def main() -> None:
    """Print the cost of the monitor relative to a step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--every",
        type=int,
        help="only boundaries, each n-th step; one of them and one other stand for all",
    )
    parser.add_argument("--sketches", action="store_true", help="of the elements, too")
    parser.add_argument(
        "--micro-batches", type=int, default=1, help="of a step, each recorded by itself, too"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)  # others wait for each other, which is no work
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    words = torch.randint(0, VOCABULARY, (options.tokens // 256, 256))
    parts = options.micro_batches
    count = sum(one.numel() for one in model.parameters())
    print(f"{count / 1e6:.0f} million parameters, {options.tokens} tokens")
    show_passes()
    inside = Inside()
    with tempfile.TemporaryDirectory() as folder:
        plain, watched, shares = [], [], []
        for number in range(options.rounds + 1):
            without = step(model, optimizer, words, parts)
            path = Path(folder) / str(number)
            config = _config(path, options.every, parts, sketches=options.sketches)
            debugger = PrecisionDebugger(config)
            debugger.monitor(model)
            if options.every:  # what is made once for each shape is no part of a step
                step(model, optimizer, words, parts)
                step(model, optimizer, words, parts)
            inside.seconds = 0.0
            with_it = step(model, optimizer, words, parts)
            own = inside.seconds
            if options.every:
                inside.seconds = 0.0
                step(model, optimizer, words, parts)
                own = (own + (options.every - 1) * inside.seconds) / options.every
                with_it = without + own
            PrecisionDebugger.close()
            if number == 0:
                continue  # what is loaded once
            plain.append(without)
            watched.append(with_it)
            shares.append(own / (with_it - own))
            print(
                f"without {plain[-1]:.2f} CPU s, with {watched[-1]:.2f} CPU s, "
                f"of them {own:.3f} inside: {shares[-1]:.2%}"
            )
    cost = median(b / a - 1 for a, b in zip(plain, watched, strict=True))
    print(f"cost, median: {cost:.1%}; by the fastest: {min(watched) / min(plain) - 1:.1%}")
    print(f"inside the monitor, median: {median(shares):.2%}")


if __name__ == "__main__":
    main()
