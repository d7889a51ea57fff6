"""Compiled regions from inside: the calls and numbers of a training that is not compiled."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from msprobe_collector.compiled.inside import look_inside
from tests.collector.recorded_flow import flow_of
from tests.collector.recording import Dump, record, tensors
from tests.collector.versions import needs_torch

pytestmark = needs_torch(2, 6, to="name the modules of compiled calls")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.fc = nn.Linear(8, 8)
        self.scale: torch.Tensor
        self.register_buffer("scale", torch.full((8,), 1.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.fc(self.norm(x))) * self.scale


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in (*self.layers, self.layers[0]):
            x = layer(x)
        x[:, 0] = 0.5
        return self.head(x.view(-1, 8))


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x).square()


def whole(model: Outer) -> Any:
    model.net = torch.compile(model.net, backend="aot_eager")  # type: ignore[assignment]
    return model


def each_layer_in_place(model: Outer) -> Any:
    for layer in model.net.layers:
        layer.compile(backend="aot_eager")  # one graph serves all three
    return model


def function(model: Outer) -> Any:
    return torch.compile(lambda x: model(x), backend="aot_eager")


def recorded(path: Path, prepared: Any, **config: Any) -> Dump:
    torch._dynamo.reset()
    look_inside()
    torch.manual_seed(2)
    model = Outer()
    called = prepared(model)
    x = torch.linspace(-1, 1, 32).reshape(4, 8)
    return record(path, lambda: called(x).sum().backward(), model, **config)


@pytest.mark.parametrize("prepared", [whole, each_layer_in_place, function])
def test_calls_inside_are_those_of_eager(prepared: Any, tmp_path: Path) -> None:
    eager = recorded(tmp_path / "eager", lambda model: model)
    inside = recorded(tmp_path / "inside", prepared, inside_compiled=True)
    assert list(inside.data) == list(eager.data)
    assert inside.parents == eager.parents
    for name, call in eager.data.items():
        # torch.compile writes arguments by position.
        expected = [tensor for _, tensor in tensors(call)]
        assert [tensor for _, tensor in tensors(inside.data[name])] == expected, name
    place = next(line for line in inside.stacks["Torch.tanh.1.forward"] if "in forward" in line)
    assert "torch.tanh(self.fc(self.norm(x))) * self.scale" in place
    torch._dynamo.reset()


@pytest.mark.parametrize("prepared", [whole, each_layer_in_place, function])
def test_makers_inside_are_those_of_eager(prepared: Any, tmp_path: Path) -> None:
    flow = {"statistics": {"flow": True}}
    eager = flow_of(recorded(tmp_path / "eager", lambda model: model, **flow))
    inside = flow_of(recorded(tmp_path / "inside", prepared, inside_compiled=True, **flow))
    assert len(eager) > 100
    differing = {
        at: (inside.get(at), makers) for at, makers in eager.items() if inside.get(at) != makers
    }
    assert not differing
    torch._dynamo.reset()


def test_only_what_is_recorded_runs_call_by_call(tmp_path: Path) -> None:
    torch._dynamo.reset()
    runs: list[int] = []

    def backend(graph: torch.fx.GraphModule, _inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            runs.append(1)
            return graph(*args)

        return run

    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    compiled: Any = net

    def step() -> None:
        nonlocal compiled
        compiled = torch.compile(net, backend=backend)
        compiled(torch.ones(2, 4))

    dump = record(tmp_path, step, net, inside_compiled=True)
    assert "Torch.tanh.0.forward" in dump.data
    assert not runs
    compiled(torch.ones(2, 4))
    assert len(runs) == 1
    torch._dynamo.reset()
