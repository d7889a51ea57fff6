"""Adapters around layers against the layers into which they were merged."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.alignment.respell import Recording, recording
from tests.alignment.score import partners
from tests.collector.recording import record

WIDTH = 16
Layer = Callable[[int, int], nn.Module]


class Own(nn.Module):
    """Parameters of its own beside the layer."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inner, outer).requires_grad_(requires_grad=False)
        self.down = nn.Parameter(torch.randn(4, inner) * 0.2)
        self.up = nn.Parameter(torch.randn(outer, 4) * 0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        more = functional.linear(functional.linear(x, self.down), self.up)
        return self.linear(x) + more

    def change(self) -> torch.Tensor:
        return self.up @ self.down


class Held(nn.Module):
    """Layers beside the layer, behind dropout."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.base = nn.Linear(inner, outer).requires_grad_(requires_grad=False)
        self.drop = nn.Dropout(0.0)
        self.a, self.b = nn.Linear(inner, 4, bias=False), nn.Linear(4, outer, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.b(self.a(self.drop(x))) * 0.5

    def change(self) -> torch.Tensor:
        return self.b.weight @ self.a.weight * 0.5


class Products(nn.Module):
    """Weights in a container that is no module to be called, as a product of products."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.inner_layer = nn.Linear(inner, outer).requires_grad_(requires_grad=False)
        shapes = ((outer, 4), (4, inner), (outer, 4), (4, inner))
        self.parts = nn.ParameterList([torch.randn(shape) * 0.3 for shape in shapes])

    def change(self) -> torch.Tensor:
        one, two, three, four = self.parts
        return torch.matmul(one, two) * torch.matmul(three, four)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner_layer(x) + functional.linear(x, self.change())


class Block(nn.Module):
    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.query, self.key, self.value = (layer(WIDTH, WIDTH) for _ in range(3))
        self.output = layer(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        weights = torch.softmax(self.query(h) @ self.key(h).transpose(-1, -2) / 4, -1)
        return x + self.output(weights @ self.value(h))


class Model(nn.Module):
    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(layer) for _ in range(2))
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def merged(adapted: nn.Module) -> Model:
    result = Model(nn.Linear)
    modules = dict(result.named_modules())
    with torch.no_grad():
        for name, module in adapted.named_modules():
            if isinstance(module, (Own, Held, Products)):
                base = next(one for one in module.children() if isinstance(one, nn.Linear))
                layer = modules[name]
                assert isinstance(layer, nn.Linear)
                layer.weight.copy_(base.weight + module.change())
                layer.bias.copy_(base.bias)
            elif name in ("head",) or name.endswith("norm"):
                modules[name].load_state_dict(module.state_dict())
    return result


def recorded(folder: Path, model: nn.Module, level: str) -> Recording:
    torch.manual_seed(5)
    x = torch.randn(2, 7, WIDTH)

    def step() -> None:
        model(x).square().mean().backward()

    return recording(record(folder, step, model, level=level).directory)


@pytest.mark.parametrize("has_other_weights", [False, True])
@pytest.mark.parametrize("level", ["mix", "L0"])
@pytest.mark.parametrize("layer", [Own, Held, Products])
def test_the_module_around_the_layer_is_the_merged_one(
    tmp_path: Path, layer: Layer, level: str, *, has_other_weights: bool
) -> None:
    if layer is Products and level == "L0" and has_other_weights:
        pytest.skip("nothing shows that the module around the layer does more")
    torch.manual_seed(1)
    adapted = Model(layer)
    plain = Model(nn.Linear) if has_other_weights else merged(adapted)
    one, two = (
        recorded(tmp_path / str(number), model, level)
        for number, model in enumerate((adapted, plain))
    )
    for npu, bench, name in ((one, two, layer.__name__), (two, one, "Linear")):
        found = partners(npu.source(), bench.source())
        other = "Linear" if name != "Linear" else layer.__name__
        right = {
            f"Module.layers.{number}.{part}.{name}.forward.0": (
                f"Module.layers.{number}.{part}.{other}.forward.0"
            )
            for number in range(2)
            for part in ("query", "key", "value", "output")
        }
        assert {call: found.get(call) for call in right} == right
