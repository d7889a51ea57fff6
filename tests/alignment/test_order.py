"""What tells the order of modules of one shape, and what does not, with no value that agrees."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.alignment.respell import (
    Change,
    chained,
    without_calls,
    without_statistics,
)
from tests.alignment.score import partners
from tests.alignment.test_other_authors import recorded
from tests.alignment.test_twins import Gate, Layer, Residual, Scale, network

MODULES_ALONE = chained(without_calls, without_statistics)


class Listed(nn.Module):
    """Modules in one list, called from the first to the last, or from the last to the first."""

    def __init__(self, name: str, modules: Sequence[nn.Module], *, turned: bool = False) -> None:
        super().__init__()
        self.entry, self.exit = nn.Linear(4, 4), nn.Linear(4, 3)
        self.name, self.turned = name, turned
        setattr(self, name, nn.ModuleList(modules[::-1] if turned else modules))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.entry(x)
        modules = list(getattr(self, self.name))
        for module in modules[::-1] if self.turned else modules:
            x = module(x)
        return self.exit(x)


def found(folder: Path, npu: nn.Module, bench: nn.Module, change: Change) -> dict[str, str]:
    """Pairs of what goes forward, other than of the collections around."""
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    sides = [recorded(folder / str(place), model, x) for place, model in enumerate((npu, bench))]
    left, right = (change(side).source() for side in sides)
    return {name: other for name, other in partners(left, right).items() if "forward" in name}


def test_layers_are_not_their_halves_because_numbers_agree(tmp_path: Path) -> None:
    """Three layers in one list; by another author each half is an entry of one list."""
    layers = Listed("layers", [Layer() for _ in range(3)])
    halves = [half for _ in range(3) for half in (Residual(network()), Residual(Gate(4, 4)))]
    pairs = found(tmp_path, layers, Listed("blocks", halves), MODULES_ALONE)
    inside = {name: other for name, other in pairs.items() if ".layers." in name}
    assert len(inside) >= 5
    for name, other in inside.items():
        _, _, layer, part, *_ = name.split(".")
        half = "gate" in part
        assert other.startswith(f"Module.blocks.{2 * int(layer) + half}."), (name, other)
        assert part != "Layer", (name, other)


@pytest.mark.parametrize("number", [2, 4])
def test_a_list_that_is_called_from_its_end_counts_from_there(tmp_path: Path, number: int) -> None:
    down = Listed("way", [Residual(network()) for _ in range(number)])
    others = [nn.Sequential(network(), nn.Sequential(Scale(), nn.Tanh())) for _ in range(number)]
    up = Listed("up", others, turned=True)
    pairs = found(tmp_path, down, up, without_statistics)
    inside = {name: other for name, other in pairs.items() if ".way." in name}
    assert len(inside) >= 2 * number
    for name, other in inside.items():
        assert int(other.split(".")[2]) == number - 1 - int(name.split(".")[2]), (name, other)


class Block(nn.Module):
    """Attention and MLP with a norm in front of each; one is named by what it stands before."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.feed_forward = Attention(is_fused=False), network()
        self.attention_norm, self.norm = Scale(), Scale()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.norm(x))


class DecoderLayer(nn.Module):
    """The same, the second norm named by what it stands behind."""

    def __init__(self) -> None:
        super().__init__()
        self.self_attn = Attention(is_fused=True)
        self.mlp = nn.Sequential(*network(), nn.Dropout(0.0), nn.Identity(), nn.Tanh())
        self.input_layernorm, self.post_attention_layernorm = Scale(), Scale()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Attention(nn.Module):
    """Query, key and value by one projection or by three, and a projection behind."""

    def __init__(self, *, is_fused: bool) -> None:
        super().__init__()
        self.is_fused = is_fused
        if is_fused:
            self.c_attn, self.c_proj = nn.Linear(4, 12), nn.Linear(4, 4)
        else:
            self.q_proj, self.k_proj, self.v_proj = (nn.Linear(4, 4) for _ in "qkv")
            self.o_proj = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.is_fused:
            q, k, v = self.c_attn(x).chunk(3, -1)
            return self.c_proj((q @ k.mT).softmax(-1) @ v)
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        return self.o_proj(torch.softmax(torch.matmul(q, k.transpose(-1, -2)), -1) @ v)


def test_a_word_that_norms_share_does_not_turn_their_order(tmp_path: Path) -> None:
    """``attention_norm`` stands before the attention, ``post_attention_layernorm`` behind it."""
    blocks, layers = ([kind() for _ in range(2)] for kind in (Block, DecoderLayer))
    pairs = found(tmp_path, Listed("blocks", blocks), Listed("layers", layers), MODULES_ALONE)
    for place in range(2):
        mine, theirs = f"Module.blocks.{place}.", f"Module.layers.{place}."
        assert pairs[f"{mine}attention_norm.Scale.forward.0"] == (
            f"{theirs}input_layernorm.Scale.forward.0"
        )
        assert pairs[f"{mine}norm.Scale.forward.0"] == (
            f"{theirs}post_attention_layernorm.Scale.forward.0"
        )


def test_what_stands_behind_fused_projections_is_the_last(tmp_path: Path) -> None:
    blocks, layers = ([kind() for _ in range(2)] for kind in (Block, DecoderLayer))
    sides = Listed("blocks", blocks), Listed("layers", layers)
    for place, (npu, bench) in enumerate((sides, sides[::-1])):
        pairs = found(tmp_path / str(place), npu, bench, MODULES_ALONE)
        last = {name: other for name, other in pairs.items() if ".c_proj." in name + other}
        assert len(last) == 2, pairs
        assert all(".o_proj." in name + other for name, other in last.items())


class KeyFirst(nn.Module):
    """Key and value by one projection, and the query after them; or each by its own."""

    def __init__(self, *, is_fused: bool) -> None:
        super().__init__()
        self.is_fused = is_fused
        if is_fused:
            self.kv, self.q = nn.Linear(4, 8), nn.Linear(4, 4)
        else:
            self.query, self.key, self.value = (nn.Linear(4, 4) for _ in "qkv")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.is_fused:
            k, v = self.kv(x).chunk(2, -1)
            return (self.q(x) @ k.mT).softmax(-1) @ v
        return torch.softmax(self.query(x) @ self.key(x).transpose(-1, -2), -1) @ self.value(x)


def test_a_query_is_no_value_though_both_come_last(tmp_path: Path) -> None:
    one, other = ([KeyFirst(is_fused=fused) for _ in range(2)] for fused in (True, False))
    pairs = found(tmp_path, Listed("a", one), Listed("b", other), MODULES_ALONE)
    assert not [name for name, other in pairs.items() if ".q." in name and ".query." not in other]


class Gated(nn.Module):
    """Two projections, one of them activated: the first by one author, the second by another."""

    def __init__(self, gate: str, up: str, *, is_first: bool) -> None:
        super().__init__()
        self.names, self.is_first = (gate, up), is_first
        self.activation, self.out = nn.SiLU(), nn.Linear(6, 4)
        for name in (gate, up):
            setattr(self, name, nn.Linear(4, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = (getattr(self, name) for name in self.names)
        if self.is_first:
            return x + self.out(self.activation(gate(x)) * up(x))
        opened = up(x)
        return x + self.out(opened * functional.silu(gate(x)))


def test_what_is_activated_tells_a_gate_from_what_it_opens(tmp_path: Path) -> None:
    """With other weights: the activation has no partner while the two are taken in their order."""

    torch.manual_seed(3)
    mine = Listed("a", [Gated("w1", "w3", is_first=True) for _ in range(3)])
    torch.manual_seed(4)
    theirs = Listed("b", [Gated("left", "right", is_first=False) for _ in range(3)])
    pairs = found(tmp_path, mine, theirs, chained())
    gates = {name: other for name, other in pairs.items() if ".w1." in name or ".w3." in name}
    assert len(gates) >= 3
    for name, other in gates.items():
        assert (".w1." in name) == (".left." in other), (name, other)
        assert name.split(".")[2] == other.split(".")[2], (name, other)
