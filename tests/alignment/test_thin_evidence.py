"""Where little tells: no calls, other weights, twins that are given one tensor."""

# mypy: disable-error-code="no-untyped-call, no-any-return"

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from tests.alignment.respell import (
    Recording,
    chained,
    other_attributes,
    other_classes,
    recording,
    without_calls,
    without_statistics,
    wrapped,
)
from tests.alignment.score import partners
from tests.collector.recording import record

RENAMED = chained(other_classes, other_attributes)


class Flat(nn.Module):
    """What is sent and what is received go through a linear each, in this order."""

    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Linear(8, 8), nn.Linear(8, 8)
        self.cell, self.norm = nn.GRUCell(8, 8), nn.LayerNorm(8)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        sent = torch.relu(self.source(x)[edges[0]] + self.target(x)[edges[1]])
        result = torch.zeros(len(x), 8).index_add(0, edges[1], sent)
        return self.norm(self.cell(result, x)) + x


class Messages(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.receiver, self.sender = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        received = self.receiver(x).index_select(0, edges[1])
        sent = torch.relu(received + self.sender(x).index_select(0, edges[0]))
        return torch.zeros(len(x), 8).scatter_add(0, edges[1].unsqueeze(-1).expand_as(sent), sent)


class Nested(nn.Module):
    """The same by another author: in a module of their own, in the other order."""

    def __init__(self) -> None:
        super().__init__()
        self.messages, self.cell, self.norm = Messages(), nn.GRUCell(8, 8), nn.LayerNorm(8)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        return self.norm(self.cell(self.messages(x, edges), x)) + x


class Net(nn.Module):
    def __init__(self, layer: type[nn.Module]) -> None:
        super().__init__()
        self.entry, self.layers = nn.Linear(4, 8), nn.ModuleList(layer() for _ in range(3))

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        x = self.entry(x)
        for layer in self.layers:
            x = layer(x, edges)
        return x


def graph_network(folder: Path, layer: type[nn.Module], seed: int) -> Recording:
    torch.manual_seed(seed)
    model, x, edges = Net(layer), torch.randn(6, 4), torch.randint(0, 6, (2, 20))
    return recording(record(folder, lambda: model(x, edges).sum().backward(), model).directory)


@pytest.mark.parametrize("kind", ["other weights, no calls", "structure, no calls", "structure"])
def test_twins_of_another_author_stay_grey(tmp_path: Path, kind: str) -> None:
    """Order is that of one author; cells and norms are known all the same."""
    npu, bench = graph_network(tmp_path / "a", Flat, 1), graph_network(tmp_path / "b", Nested, 2)
    if "no calls" in kind:
        npu, bench = without_calls(npu), without_calls(bench)
    if "structure" in kind:
        npu, bench = without_statistics(npu), without_statistics(bench)
    bench = chained(RENAMED, wrapped(lambda name: name.stem.count(".") > 2, "w", "Wrap"))(bench)
    found = partners(npu.source(), bench.source())
    for layer in range(3):
        for twin in ("source", "target"):
            assert f"Module.layers.{layer}.{twin}.Linear.forward.0" not in found
        for name in (f"cell.GRUCell.{call}" for call in ("forward.0", "backward.0")):
            other = bench.origin[found[f"Module.layers.{layer}.{name}"]]
            assert other == f"Module.layers.{layer}.{name}"


def test_twins_of_one_code_are_told_by_their_order(tmp_path: Path) -> None:
    npu = without_calls(graph_network(tmp_path / "a", Flat, 1))
    bench = RENAMED(without_calls(graph_network(tmp_path / "b", Flat, 2)))
    found = partners(npu.source(), bench.source())
    forward = [name for name in npu.origin if ".forward." in name]
    assert {name: bench.origin[found[name]] for name in forward} == {name: name for name in forward}


class NormAct(nn.BatchNorm2d):
    """A norm that holds its activation."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.act = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(super().forward(x))


class Together(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), NormAct(4)) for _ in range(3)
        )
        self.head = nn.Conv2d(4, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Apart(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.ModuleList(
            nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
            for _ in range(3)
        )
        self.last = nn.Conv2d(4, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.features:
            x = block(x)
        return self.last(x)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_norm_that_holds_its_activation_is_no_norm_alone(tmp_path: Path, seed: int) -> None:
    sides = []
    for folder, model_class, of in (("a", Together, 1), ("b", Apart, seed)):
        torch.manual_seed(of)
        model, x = model_class(), torch.randn(2, 4, 6, 6)

        def step(model: nn.Module = model, x: torch.Tensor = x) -> None:
            model(x).square().mean().backward()

        sides.append(without_calls(recording(record(tmp_path / folder, step, model).directory)))
    found = partners(sides[0].source(), sides[1].source())
    for block in range(3):
        assert f"Module.blocks.{block}.1.NormAct.forward.0" not in found
        for own, other in (("0.Conv2d", "0.Conv2d"), ("1.act.ReLU", "2.ReLU")):
            assert found[f"Module.blocks.{block}.{own}.forward.0"] == (
                f"Module.features.{block}.{other}.forward.0"
            )


class Bare(nn.Module):
    """Blocks that activate; their host adds what they were given."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.ModuleList(
            nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
            for _ in range(2)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for step in self.steps:
            x = x + step(x)
        return x


class Adding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(self.norm(self.conv(x)))


class Whole(nn.Module):
    """The same; the blocks add."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Adding() for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def test_without_calls_another_result_shows_where_all_ends_agree(tmp_path: Path) -> None:
    sides = []
    for folder, model_class in (("a", Bare), ("b", Whole)):
        torch.manual_seed(1)
        model, last = model_class(), nn.Conv2d(4, 2, 1)
        both, x = nn.Sequential(model, last), torch.randn(2, 4, 6, 6)

        def step(model: nn.Module = both, x: torch.Tensor = x) -> None:
            model(x).square().mean().backward()

        sides.append(without_calls(recording(record(tmp_path / folder, step, both).directory)))
    found = partners(sides[0].source(), sides[1].source())
    for number in range(2):
        assert f"Module.0.steps.{number}.Sequential.forward.0" not in found
        assert found[f"Module.0.steps.{number}.0.Conv2d.forward.0"] == (
            f"Module.0.layers.{number}.conv.Conv2d.forward.0"
        )
