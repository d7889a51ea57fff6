"""Networks of one shape that two authors call in another order, with other weights on each side."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from tests.alignment.respell import Recording, chained, without_calls, without_statistics
from tests.alignment.score import partners
from tests.alignment.test_other_authors import recorded


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 7), nn.Tanh(), nn.Linear(7, 4))


class Coupling(nn.Module):
    """Scale and shift of one half by the other; every second entry of a list in the model."""

    def __init__(self) -> None:
        super().__init__()
        self.scale_net, self.shift_net = network(), network()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept, moved = x.chunk(2, 1)
        scale = torch.sigmoid(self.scale_net(kept))
        return torch.cat([moved * scale.exp() + self.shift_net(kept), kept], 1)


class Step(nn.Module):
    """The same by another author: the shift comes first."""

    def __init__(self) -> None:
        super().__init__()
        self.b, self.a = network(), network()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept, moved = x[:, :4], x[:, 4:]
        shift, scale = self.b(kept), self.a(kept).sigmoid()
        return torch.cat([moved * torch.exp(scale) + shift, kept], dim=1)


class Between(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def two_authors(folder: Path) -> tuple[Recording, Recording]:
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(1))
    torch.manual_seed(2)
    flows = nn.Sequential(*(one for _ in range(3) for one in (Between(), Coupling())))
    npu = recorded(folder / "npu", flows, x)
    torch.manual_seed(3)
    return npu, recorded(folder / "bench", nn.Sequential(*(Step() for _ in range(3))), x + 1)


class Heads(nn.Module):
    """Two networks of one shape, told apart by what is made of their results alone."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.kinds, self.boxes = nn.Linear(8, 4), network(), network()
        self.to_kind, self.to_box = nn.Linear(4, 9), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.body(x)
        return torch.cat([self.to_kind(self.kinds(x)), self.to_box(self.boxes(x))], 1)


class Towers(nn.Module):
    """The same by another author: the boxes come first, and every call has a partner."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.one, self.two = nn.Linear(8, 4), network(), network()
        self.place, self.label = nn.Linear(4, 2), nn.Linear(4, 9)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        place, label = self.place(self.one(x)), self.label(self.two(x))
        return torch.cat([label, place], 1)


class Scale(nn.Module):
    """A normalisation: its weight is a vector."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


class Gate(nn.Module):
    """A network of one layer or, elsewhere, of two."""

    def __init__(self, *sizes: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(*(nn.Linear(4, 4, bias=False) for _ in sizes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.inner(x)) * x


class Layer(nn.Module):
    """Norms in front of two networks and behind them."""

    def __init__(self) -> None:
        super().__init__()
        self.input_norm, self.mix, self.post_mix_norm = Scale(), network(), Scale()
        self.pre_gate_norm, self.gate, self.post_gate_norm = Scale(), Gate(4), Scale()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.post_mix_norm(self.mix(self.input_norm(x)))
        return x + self.post_gate_norm(self.gate(self.pre_gate_norm(x)))


class Residual(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.pre, self.inner, self.post = Scale(), inner, Scale()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.post(self.inner(self.pre(x)))


class Stack(nn.Module):
    """The same layers by another author: the networks of each kind are a list of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.mixes = nn.ModuleList(Residual(network()) for _ in range(3))
        self.gates = nn.ModuleList(Residual(Gate(4, 4)) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for mix, gate in zip(self.mixes, self.gates, strict=True):
            x = gate(mix(x))
        return x


def twins(found: dict[str, str]) -> dict[str, str]:
    """Partners of the networks and of what they hold."""
    return {name: other for name, other in found.items() if "_net" in name and "grad" not in name}


def test_who_takes_their_results_tells_networks_of_one_shape(tmp_path: Path) -> None:
    npu, bench = two_authors(tmp_path)
    found = twins(partners(npu.source(), bench.source()))
    for name, other in found.items():
        assert (".scale_net." in name) == (".a." in other), (name, other)
        assert int(name.split(".")[1]) == 2 * int(other.split(".")[1]) + 1, (name, other)
    assert len(found) >= 2 * 3 * 4


def test_networks_are_told_apart_where_every_call_has_a_partner(tmp_path: Path) -> None:
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(1))
    torch.manual_seed(2)
    npu = recorded(tmp_path / "npu", Heads(), x)
    torch.manual_seed(3)
    bench = recorded(tmp_path / "bench", Towers(), x + 1)
    found = partners(npu.source(), bench.source())
    inside = {name: other for name, other in found.items() if ".kinds." in name}
    assert len(inside) >= 4
    assert all(".two." in other for other in inside.values()), inside
    assert all(".one." in other for name, other in found.items() if ".boxes." in name)


def test_norms_are_not_taken_for_one_another_where_modules_alone_are_known(tmp_path: Path) -> None:
    """Each stands in front of what takes its result, or behind what it is made of."""
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    layers = nn.Sequential(*(Layer() for _ in range(3)))
    change = chained(without_calls, without_statistics)
    npu = change(recorded(tmp_path / "npu", layers, x))
    bench = change(recorded(tmp_path / "bench", Stack(), x))
    found = partners(npu.source(), bench.source())
    norms = [name for name in npu.origin if ".Scale.forward" in name]
    right = {"input_norm": "mixes", "post_mix_norm": "mixes"}
    right |= {"pre_gate_norm": "gates", "post_gate_norm": "gates"}
    pairs = {name: found[name] for name in norms if name in found}
    for name, other in pairs.items():
        _, layer, place, *_ = name.split(".")
        end = "post" if place.startswith("post") else "pre"
        assert other.startswith(f"Module.{right[place]}.{layer}.{end}."), (name, other)
    assert pairs


def test_networks_that_their_order_alone_tells_stay_open(tmp_path: Path) -> None:
    """Without values nobody knows who takes what: better none than the other one."""
    npu, bench = (without_statistics(one) for one in two_authors(tmp_path))
    found = twins(partners(npu.source(), bench.source()))
    assert not [pair for pair in found.items() if (".scale_net." in pair[0]) != (".a." in pair[1])]
