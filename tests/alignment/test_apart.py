"""What is alike and yet does something else stays apart; what only looks unlike finds together."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from msprobe_builder.command.main import main
from tests.alignment.respell import Recording, without_calls, without_statistics
from tests.alignment.score import partners
from tests.alignment.test_other_authors import recorded


class Gate(nn.Module):
    """A router with weights of its own: which two experts, and how much of each."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight = nn.Parameter(linear.weight.detach().clone())

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, index = functional.linear(x, self.weight).sigmoid().topk(2)
        return index, values / values.sum(-1, keepdim=True)


class Router(nn.Module):
    """The same around a linear."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.project = linear

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, index = torch.sigmoid(self.project(x)).topk(2)
        return index, values / values.sum(-1, keepdim=True)


class Routed(nn.Module):
    def __init__(self, router: type[Gate | Router]) -> None:
        super().__init__()
        self.entry, self.router = nn.Linear(8, 8), router(nn.Linear(8, 6, bias=False))
        self.out = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.entry(x))
        _, values = self.router(x)
        return self.out(x) * values.sum(-1, keepdim=True) + values[:, :1]


def both(folder: Path, models: Sequence[nn.Module], x: torch.Tensor) -> list[Recording]:
    return [recorded(folder / str(place), model, x) for place, model in enumerate(models)]


def seeded(make: Callable[..., nn.Module], *arguments: object) -> nn.Module:
    torch.manual_seed(2)
    return make(*arguments)


def test_a_router_is_no_counterpart_of_the_linear_in_another_one(tmp_path: Path) -> None:
    x = torch.randn(5, 8, generator=torch.Generator().manual_seed(1))
    npu, bench = both(tmp_path, [seeded(Routed, Gate), seeded(Routed, Router)], x)
    wrong = "Module.router.project.Linear.forward.0"
    for change in (lambda side: side, without_calls):
        found = partners(change(npu).source(), change(bench).source())
        assert found["Module.entry.Linear.forward.0"] == "Module.entry.Linear.forward.0"
        assert found.get("Module.router.Gate.forward.0") != wrong


class Shifted(nn.Module):
    """Normalised, scaled and shifted by what one linear puts out, or by several."""

    def __init__(self, *, is_one: bool) -> None:
        super().__init__()
        fused = nn.Linear(8, 32)
        self.one = fused if is_one else None
        parts = [] if is_one else [nn.Linear(8, 16) for _ in "ab"]
        self.parts = nn.ModuleList(parts)
        for place, part in enumerate(parts):
            rows = slice(16 * place, 16 * place + 16)
            part.weight.data.copy_(fused.weight[rows])
            part.bias.data.copy_(fused.bias[rows])
        self.inner = nn.ModuleList(nn.Linear(8, 8) for _ in "ab")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        condition = torch.tanh(x)
        if self.one is None:
            scales = [piece for part in self.parts for piece in part(condition).chunk(2, -1)]
        else:
            scales = list(self.one(condition).chunk(4, -1))
        for place, inner in enumerate(self.inner):
            x = x + inner(x * scales[2 * place] + scales[2 * place + 1])
        return x


def test_what_puts_out_half_as_much_again_is_no_counterpart(tmp_path: Path) -> None:
    x = torch.randn(5, 8, generator=torch.Generator().manual_seed(1))
    models = [seeded(lambda is_one=one: Shifted(is_one=is_one)) for one in (True, False)]
    npu, bench = both(tmp_path, models, x)
    for change in (lambda side: side, without_statistics):
        found = partners(change(npu).source(), change(bench).source())
        assert "Module.one.Linear.forward.0" not in found
        assert "Functional.linear.0.forward" not in found
        for place in range(2):
            name = f"Module.inner.{place}.Linear.forward.0"
            assert found[name] == name


def test_members_of_groups_are_not_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The summary counts bench nodes that have no partner and belong to no group."""
    x = torch.randn(5, 8, generator=torch.Generator().manual_seed(1))
    models = [seeded(lambda is_one=one: Shifted(is_one=is_one)) for one in (True, False)]
    for place, model in enumerate(models):
        recorded(tmp_path / str(place), model, x)
    paths = [str(tmp_path / str(place) / "dump" / "step0" / "rank") for place in range(2)]
    request = {"npu_path": paths[0], "bench_path": paths[1], "is_print_compare_log": False}
    (tmp_path / "compare.json").write_text(json.dumps(request))
    arguments = ["-i", str(tmp_path / "compare.json"), "-o", str(tmp_path / "out")]
    assert main(arguments) == 0
    said = capsys.readouterr()
    [file] = (tmp_path / "out").glob("*.vis.db")
    with sqlite3.connect(file) as connection:
        rows = connection.execute(
            "SELECT matched, unmatched_reason FROM node_view WHERE side = 'bench'"
        ).fetchall()
    reasons = [reason for matched, reason in rows if matched is None]
    assert len(reasons) > 10
    assert set(reasons) == {"grouped"}
    assert "Alone" not in said.out + said.err


def test_an_activation_is_no_dropout_though_nothing_else_tells(tmp_path: Path) -> None:
    """Modules alone: one author activates in the module before, and drops nothing behind it."""

    class Activating(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.project = nn.Linear(8, 16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return functional.gelu(self.project(x))

    def stack(*, inside: bool) -> nn.Module:
        entry = [Activating(), nn.Dropout(0.0)] if inside else [nn.Linear(8, 16), nn.GELU()]
        return nn.Sequential(*entry, nn.Linear(16, 8))

    x = torch.randn(5, 8, generator=torch.Generator().manual_seed(1))
    models = [
        nn.Sequential(*(seeded(lambda inside=one: stack(inside=inside)) for _ in range(3)))
        for one in (False, True)
    ]
    npu, bench = map(without_calls, both(tmp_path, models, x))
    for change in (lambda side: side, without_statistics):
        found = partners(change(npu).source(), change(bench).source())
        for place in range(3):
            assert f"Module.{place}.1.GELU.forward.0" not in found
            assert found[f"Module.{place}.2.Linear.forward.0"] == (
                f"Module.{place}.2.Linear.forward.0"
            )


class Rotated(nn.Module):
    """Pairs of elements turned: by halves that trade places, or half by half."""

    def __init__(self, *, by_halves: bool) -> None:
        super().__init__()
        self.project, self.out, self.by_halves = nn.Linear(8, 8), nn.Linear(8, 8), by_halves

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        angle = torch.arange(5.0)[:, None] * torch.tensor([1.0, 0.3, 0.1, 0.03])
        y = self.project(x)
        first, second = y[..., :4], y[..., 4:]
        if not self.by_halves:
            cos, sin = angle.cos(), angle.sin()
            turned = first * cos - second * sin, second * cos + first * sin
            return self.out(torch.cat(turned, -1))
        both = torch.cat([angle, angle], dim=-1)
        y = y * both.cos() + torch.cat([-second, first], -1) * both.sin()
        return self.out(y)


def test_without_statistics_what_moves_elements_is_known_by_its_neighbours(tmp_path: Path) -> None:
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))
    models = [
        nn.Sequential(*(seeded(lambda halves=one: Rotated(by_halves=halves)) for _ in range(2)))
        for one in (True, False)
    ]
    npu, bench = map(without_statistics, both(tmp_path, models, x))
    found = partners(npu.source(), bench.source())
    turned = [f"Torch.cat.{2 * place + 1}.forward" for place in range(2)]  # halves trade places
    assert all(name in npu.data for name in turned)
    assert not [name for name in turned if name in found]
    assert found["Functional.linear.3.forward"] == "Functional.linear.3.forward"
