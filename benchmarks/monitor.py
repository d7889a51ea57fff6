"""What the monitor costs: steps of a model of 100 million parameters on the CPU, with and without.

Run it as ``python benchmarks/monitor.py``; steps with and without alternate, so that both see the
same machine, and the median of the differences counts.
"""

# mypy: disable-error-code="no-untyped-call"
# torch is typed in part only.

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

import torch
from torch import nn

from msprobe_collector import PrecisionDebugger

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


def step(model: Model, optimizer: torch.optim.Optimizer, words: torch.Tensor) -> float:
    """CPU seconds of one training step, of all threads: other jobs disturb them less."""
    began = time.process_time()
    loss = nn.functional.cross_entropy(model(words).flatten(0, 1), words.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return time.process_time() - began


def main() -> None:
    """Print the cost of the monitor relative to a step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)  # others wait for each other, which is no work
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    words = torch.randint(0, VOCABULARY, (options.tokens // 256, 256))
    count = sum(one.numel() for one in model.parameters())
    print(f"{count / 1e6:.0f} million parameters, {options.tokens} tokens")
    with tempfile.TemporaryDirectory() as folder:
        plain, watched = [], []
        for number in range(options.rounds + 1):
            without = step(model, optimizer, words)
            debugger = PrecisionDebugger(None, "monitor", Path(folder) / str(number))
            debugger.monitor(model)
            with_it = step(model, optimizer, words)
            PrecisionDebugger.close()
            if number == 0:
                continue  # what is loaded once
            plain.append(without)
            watched.append(with_it)
            print(f"without {plain[-1]:.2f} CPU s, with {watched[-1]:.2f} CPU s")
    cost = median(b / a - 1 for a, b in zip(plain, watched, strict=True))
    print(f"cost, median: {cost:.1%}; by the fastest: {min(watched) / min(plain) - 1:.1%}")


if __name__ == "__main__":
    main()
