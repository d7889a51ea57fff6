"""Programs without modules, parameters in a tree, against modules."""

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

WIDTH, HEADS, LAYERS, WORDS = 16, 2, 3, 23


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.behind = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.before(x)
        q, k, v = (
            layer(h).view(*h.shape[:2], HEADS, -1).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        weights = torch.softmax(torch.matmul(q, k.transpose(2, 3)) * 0.35, -1)
        x = x + self.out(torch.matmul(weights, v).transpose(1, 2).reshape(x.shape))
        return x + self.down(functional.gelu(self.up(self.behind(x))))


class Modules(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.words(x)
        for layer in self.layers:
            h = layer(h)
        return self.head(h)


def program(p: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """The same function of a tree of parameters."""

    def norm(h: torch.Tensor, name: str) -> torch.Tensor:
        return functional.layer_norm(h, (WIDTH,), p[f"{name}.weight"], p[f"{name}.bias"])

    def linear(h: torch.Tensor, name: str) -> torch.Tensor:
        return torch.einsum("bsi,oi->bso", h, p[f"{name}.weight"]) + p[f"{name}.bias"]

    h = p["words.weight"][x]
    for number in range(LAYERS):
        own = f"layers.{number}"
        y = norm(h, f"{own}.before")
        q, k, v = (
            linear(y, f"{own}.{part}").unflatten(-1, (HEADS, -1)).permute(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        a = torch.softmax(torch.einsum("bhqd,bhkd->bhqk", q, k) * 0.35, -1)
        o = torch.einsum("bhqk,bhkd->bhqd", a, v).permute(0, 2, 1, 3).flatten(-2)
        h = h + linear(o, f"{own}.out")
        h = h + linear(
            functional.gelu(linear(norm(h, f"{own}.behind"), f"{own}.up")), f"{own}.down"
        )
    return torch.einsum("bsi,oi->bso", h, p["head.weight"])


def recorded(
    folder: Path, model: nn.Module, run: Callable[[torch.Tensor], torch.Tensor]
) -> Recording:
    torch.manual_seed(5)
    x = torch.randint(0, WORDS, (2, 7))

    def step() -> None:
        functional.cross_entropy(run(x).flatten(0, 1), x.flatten()).backward()

    return recording(record(folder, step, model).directory)


def right() -> dict[str, str]:
    """Calls of the program by those of the modules."""
    same = [("Torch.softmax", number) for number in range(LAYERS)]
    same += [("Functional.gelu", number) for number in range(LAYERS)]
    same += [("Functional.layer_norm", number) for number in range(2 * LAYERS)]
    result = {f"{stem}.{number}.forward": f"{stem}.{number}.forward" for stem, number in same}
    for number in range(2 * LAYERS):
        # Of each layer three linears come before its two products, and three behind.
        product = 8 * (number // 2) + 3 + number % 2
        result[f"Torch.matmul.{number}.forward"] = f"Torch.einsum.{product}.forward"
    return result


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("has_other_weights", [False, True])
def test_calls_find_each_other_without_modules(
    tmp_path: Path, *, has_other_weights: bool, is_turned: bool
) -> None:
    torch.manual_seed(1)
    model = Modules()
    if has_other_weights:
        torch.manual_seed(2)
    tree = Modules() if has_other_weights else model
    parameters: dict[str, torch.Tensor] = dict(tree.named_parameters())
    sides = [
        recorded(tmp_path / "modules", model, model),
        recorded(tmp_path / "program", nn.Module(), lambda x: program(parameters, x)),
    ]
    wanted = right()
    if is_turned:
        sides, wanted = sides[::-1], {other: own for own, other in wanted.items()}
    found = partners(sides[0].source(), sides[1].source())
    assert {call: found.get(call) for call in wanted} == wanted
