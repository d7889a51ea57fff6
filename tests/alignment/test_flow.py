"""Other weights, other names, another order of lines: what flows between the calls tells."""

# mypy: disable-error-code="no-untyped-call, no-any-return"

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from tests.alignment.respell import Recording, recording, without_statistics
from tests.alignment.score import partners
from tests.collector.recording import record


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.one(x), self.two(x), self.three(x)
        scores = torch.matmul(query, key.transpose(1, 2)) / 3.0
        return torch.matmul(scores.softmax(-1), value)


class Exchanged(nn.Module):
    """The same with the projections in another order, under names without a word in common."""

    def __init__(self) -> None:
        super().__init__()
        self.red, self.green, self.blue = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.drop = nn.Dropout(0.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value, key, query = self.red(x), self.green(x), self.blue(x)
        products = torch.mul(query @ key.permute(0, 2, 1), 0.3).sub(0.1)
        weights = products.exp() / products.exp().sum(-1, keepdim=True)
        return self.drop(weights) @ value


class Model(nn.Module):
    def __init__(self, attention: type[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(attention() for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x


TRUTH = {"one.Linear": "blue.Linear", "two.Linear": "green.Linear", "three.Linear": "red.Linear"}


def recorded(folder: Path, attention: type[nn.Module], seed: int) -> Recording:
    torch.manual_seed(seed)
    model, x = Model(attention), torch.randn(2, 4, 8)

    def step() -> None:
        model(x).square().mean().backward()

    return recording(record(folder, step, model).directory)


def projections(found: dict[str, str]) -> dict[str, str]:
    return {
        name: other.rpartition("layers.")[2]
        for name, other in found.items()
        if name.startswith("Module.layers.") and ".Linear." in name
    }


@pytest.mark.parametrize("is_structure", [False, True])
def test_projections_in_another_order(tmp_path: Path, is_structure: bool) -> None:
    """With other weights all are found; by structure alone nothing tells, and they stay grey."""
    sides = [recorded(tmp_path / "a", Attention, 1), recorded(tmp_path / "b", Exchanged, 2)]
    if is_structure:
        sides = [without_statistics(side) for side in sides]
    found = projections(partners(sides[0].source(), sides[1].source()))
    right = {
        f"Module.layers.{layer}.{mine}.{direction}": f"{layer}.{theirs}.{direction}"
        for layer in range(2)
        for mine, theirs in TRUTH.items()
        for direction in ("forward.0", "backward.0")
    }
    calls = {name: other for name, other in found.items() if "parameters" not in name}
    assert calls == ({} if is_structure else right)
