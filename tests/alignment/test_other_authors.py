"""Small models as two authors write them, recorded here; equal outputs tell the truth."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from tests.alignment.respell import Recording, other_seed, recording, without_statistics
from tests.alignment.score import partners
from tests.alignment.test_two_libraries import agree, only_once, outputs
from tests.collector.recording import record


def recorded(folder: Path, model: nn.Module, x: torch.Tensor) -> Recording:
    def step() -> None:
        model(x).square().mean().backward()

    return recording(record(folder, step, model).directory)


class Turned(nn.Module):
    """Rotates pairs of elements: by halves that trade places, or as complex numbers."""

    def __init__(self, *, is_complex: bool) -> None:
        super().__init__()
        self.project = nn.Linear(8, 8)
        self.back = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(4)))
        self.is_complex = is_complex

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        angle = torch.arange(5.0)[:, None] * torch.tensor([1.0, 0.3, 0.1, 0.03])
        y = self.project(x)
        if self.is_complex:
            z = torch.complex(y[..., :4], y[..., 4:])
            z = z * torch.complex(angle.cos(), angle.sin())
            y = torch.cat([z.real, z.imag], dim=-1)
        else:
            both = torch.cat([angle, angle], dim=-1)
            y = y * both.cos() + torch.cat([-y[..., 4:], y[..., :4]], dim=-1) * both.sin()
        return self.back(y)


def test_calls_that_move_elements_of_other_tensors_are_no_pair(tmp_path: Path) -> None:
    """Of all calls named cat one side turns with one, the other gathers the turned with another."""
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))
    sides = []
    for is_complex in (False, True):
        torch.manual_seed(2)
        folder = tmp_path / str(is_complex)
        sides.append(recorded(folder, Turned(is_complex=is_complex), x))
    found = partners(sides[0].source(), sides[1].source())
    mine, theirs = map(outputs, sides)
    last = "Functional.linear.4.forward"
    assert agree(mine[last], theirs[last])
    assert found[last] == last
    cats = [(name, other) for name, other in found.items() if name.startswith("Torch.cat")]
    forward = [pair for pair in cats if pair[0].endswith(".forward")]
    assert not [(a, b) for a, b in forward if not agree(mine[a], theirs[b])]


class Normed(nn.BatchNorm2d):
    """A norm with its activation inside, and a place for what is not used."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.drop, self.act = nn.Identity(), nn.SiLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.act(self.drop(super().forward(x)))
        return out


class Convolved(nn.Module):
    """A convolution with such a norm, what follows it in a module of its own or not."""

    def __init__(self, channels: int, *, inside: bool) -> None:
        super().__init__()
        conv, self.inside = nn.Conv2d(channels, 4, 3), inside
        if inside:
            self.conv, self.norm, self.aa = conv, Normed(4), nn.Identity()
        else:
            self.block = nn.Sequential(nn.Sequential(conv, nn.BatchNorm2d(4), nn.SiLU()))
        self.last = nn.Conv2d(4, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.aa(self.norm(self.conv(x))) if self.inside else self.block(x)
        out: torch.Tensor = self.last(x)
        return out


def test_an_activation_is_no_counterpart_of_an_identity_that_is_given_its_result(
    tmp_path: Path,
) -> None:
    x = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    sides = []
    for inside in (False, True):
        torch.manual_seed(2)
        sides.append(
            recorded(
                tmp_path / str(inside),
                nn.Sequential(*(Convolved(size, inside=inside) for size in (3, 4))),
                x,
            )
        )
    mine, theirs = map(outputs, sides)
    first, second = only_once(mine), only_once(theirs)
    right = {first[key]: second[key] for key in first.keys() & second.keys()}
    assert "Functional.silu.1.forward" in right
    found = partners(sides[0].source(), sides[1].source())
    assert {name: found.get(name) for name in right} == right


class Adapted(nn.Module):
    """A linear and what is learned beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(8, 8)
        self.down, self.up = nn.Linear(8, 2, bias=False), nn.Linear(2, 8, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.up(self.down(x))


class Block(nn.Module):
    def __init__(self, *, is_adapted: bool) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(8), Adapted() if is_adapted else nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(self.linear(self.norm(x)))


class Stack(nn.Module):
    """Blocks in a list that counts them from zero, or behind an entry that is no block."""

    def __init__(self, *, is_adapted: bool) -> None:
        super().__init__()
        blocks = [Block(is_adapted=is_adapted) for _ in range(3)]
        self.blocks = nn.ModuleList(blocks if is_adapted else [nn.Identity(), *blocks])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x) if isinstance(block, Block) else x
        return x


def test_lists_of_as_many_modules_are_counted_from_their_first(tmp_path: Path) -> None:
    """Blocks differ in size and no statistic tells: their places do, not their numbers."""
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))
    npu, bench = (
        without_statistics(recorded(tmp_path / str(one), Stack(is_adapted=one), x))
        for one in (True, False)
    )
    found = partners(npu.source(), bench.source())
    for place in range(3):
        name = f"Module.blocks.{place}.Block.forward.0"
        assert found[name] == f"Module.blocks.{place + 1}.Block.forward.0"


class Projected(nn.Module):
    """Three projections, two of them in a module of their own."""

    def __init__(self, *, nested: bool) -> None:
        super().__init__()
        self.nested = nested
        projections = [nn.Linear(8, 8) for _ in range(3)]
        if nested:
            self.two, self.value = Two(*projections[:2]), projections[2]
        else:
            self.query, self.key, self.value = projections

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key = self.two(x) if self.nested else (self.query(x), self.key(x))
        return torch.softmax(query @ key.transpose(1, 2), dim=-1) @ self.value(x)


class Two(nn.Module):
    def __init__(self, query: nn.Linear, key: nn.Linear) -> None:
        super().__init__()
        self.query, self.key = query, key

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.query(x), self.key(x)


class Attending(nn.Module):
    def __init__(self, *, nested: bool) -> None:
        super().__init__()
        self.attention, self.output = Projected(nested=nested), nn.Linear(8, 8)
        self.act = nn.GELU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.output(self.attention(x)))


class Held(nn.Module):
    """The last two modules in one of their own."""

    def __init__(self, whole: Attending) -> None:
        super().__init__()
        self.attention, self.end = whole.attention, nn.Sequential(whole.output, whole.act)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.end(self.attention(x))
        return out


def test_modules_that_hold_others_leave_these_their_partners(tmp_path: Path) -> None:
    """A container is neither the counterpart of an activation nor takes what it holds away."""
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))
    torch.manual_seed(2)
    npu = recorded(tmp_path / "npu", Held(Attending(nested=True)), x)
    torch.manual_seed(2)
    bench = recorded(tmp_path / "bench", Attending(nested=False), x)
    for change in (lambda side: side, other_seed(3)):
        found = partners(change(npu).source(), bench.source())
        assert found["Module.end.1.GELU.forward.0"] == "Module.act.GELU.forward.0"
        assert found["Module.end.0.Linear.forward.0"] == "Module.output.Linear.forward.0"
    found = partners(npu.source(), bench.source())
    for one in ("query", "key"):
        name = f"Module.attention.two.{one}.Linear.forward.0"
        assert found[name] == f"Module.attention.{one}.Linear.forward.0"
