"""Train a small transformer for two steps and record them: `python train.py DIR [--fault]`."""

import argparse

import torch
from torch import nn

from msprobe_collector import PrecisionDebugger, seed_all


class Block(nn.Module):
    def __init__(self, width: int, scale: float) -> None:
        super().__init__()
        self.norm, self.qkv = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        x = x + torch.softmax(q @ k.mT * self.scale, dim=-1) @ v
        return x + self.mlp(x)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("dump_path")
parser.add_argument("--fault", action="store_true", help="a wrong attention scale in the 2nd block")
options = parser.parse_args()

seed_all(1234)
scales = [32**-0.5, 32**-0.5 * (1.5 if options.fault else 1.0)]
model = nn.Sequential(nn.Embedding(64, 32), *(Block(32, s) for s in scales), nn.Linear(32, 64))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
debugger = PrecisionDebugger(dump_path=options.dump_path, level="mix")

for _ in range(2):
    tokens = torch.randint(0, 64, (2, 16))
    debugger.start(model)
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.roll(-1, 1).flatten())
    loss.backward()
    debugger.stop()
    debugger.step()
    optimizer.step()
    optimizer.zero_grad()
