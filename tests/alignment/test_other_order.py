"""Two authors, no values: roles, first results and the flow that shapes let guess tell."""

# mypy: disable-error-code="no-untyped-call, no-any-return"

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from msprobe_builder.base.options import DEFAULT_OPTIONS
from tests.alignment.respell import (
    Change,
    Recording,
    chained,
    recording,
    without_calls,
    without_statistics,
)
from tests.alignment.score import matched, partners
from tests.collector.recording import record

MODULES_ALONE = chained(without_calls, without_statistics)
KINDS: dict[str, Change] = {
    "structure": without_statistics,
    "modules, other weights": without_calls,
    "modules alone": MODULES_ALONE,
}


def train(model: nn.Module, x: torch.Tensor) -> None:
    model(x).square().mean().backward()


class Attention(nn.Module):
    """Projects to query, key and value; ``parts`` names them, in the order of the calls."""

    def __init__(self, parts: dict[str, str], last: str, *, returns_weights: bool = False) -> None:
        super().__init__()
        self.parts, self.last, self.returns_weights = parts, last, returns_weights
        for name in (*parts, last):
            self.add_module(name, nn.Linear(8, 8))

    def forward(self, x: torch.Tensor, other: torch.Tensor | None = None) -> object:
        made = {}
        for name, part in self.parts.items():
            given = x if part == "query" or other is None else other
            made[part] = self.get_submodule(name)(given)
        weights = (made["query"] @ made["key"].transpose(1, 2) / 3.0).softmax(-1)
        result = self.get_submodule(self.last)(weights @ made["value"])
        return (result, weights) if self.returns_weights else result


class Spelled(Attention):
    """The same with the softmax written out."""

    def forward(self, x: torch.Tensor, _: torch.Tensor | None = None) -> object:
        value, key, query = (self.get_submodule(name)(x) for name in self.parts)
        products = torch.mul(query @ key.permute(0, 2, 1), 0.3).sub(0.1)
        weights = products.exp() / products.exp().sum(-1, keepdim=True)
        return self.get_submodule(self.last)(torch.clone(weights) @ value)


class Gated(nn.Module):
    """``first`` is projected to before ``second``; ``gate`` is activated."""

    def __init__(self, first: str, second: str, gate: str) -> None:
        super().__init__()
        self.first, self.second, self.gates = first, second, gate
        for name in (first, second):
            self.add_module(name, nn.Linear(8, 8))
        self.out = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = {name: self.get_submodule(name)(x) for name in (self.first, self.second)}
        factors = (functional.silu(v) if n == self.gates else v for n, v in made.items())
        return self.out(torch.mul(*factors))


class Layers(nn.Module):
    """Layers with norms in front of what they add."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.part = nn.ModuleList(parts)
        self.norm = nn.ModuleList(nn.LayerNorm(8) for _ in parts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part, norm in zip(self.part, self.norm, strict=True):
            made = part(norm(x))
            x = x + (made[0] if isinstance(made, tuple) else made)
        return x


def found(
    folder: Path, change: Change, debug: nn.Module, reference: nn.Module
) -> tuple[dict[str, str], Recording]:
    """Partners of the nodes of two models that were drawn anew; the recording of the first."""
    sides = []
    for seed, model in ((1, debug), (2, reference)):
        torch.manual_seed(seed)
        for parameter in model.parameters():
            nn.init.normal_(parameter)
        x = torch.randn(2, 4, 8)
        dump = record(folder / str(seed), partial(train, model, x), model)
        sides.append(change(recording(dump.directory)))
    return partners(sides[0].source(), sides[1].source()), sides[0]


def ends(pairs: dict[str, str]) -> set[tuple[str, str]]:
    """The attributes of linears that are pairs."""
    return {
        (name.split(".")[-4], other.split(".")[-4])
        for name, other in pairs.items()
        if ".Linear.forward" in name
    }


QUERY = {"query": "query", "key": "key", "value": "value"}
VALUE = {"v_proj": "value", "k_proj": "key", "q_proj": "query"}
WITHOUT = {"red": "value", "green": "key", "blue": "query"}
PLAIN = {"one": "query", "two": "key", "three": "value"}
ROLES = {("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj"), ("merge", "o_proj")}


@pytest.mark.parametrize("kind", KINDS)
def test_roles_tell_projections_that_are_called_in_another_order(tmp_path: Path, kind: str) -> None:
    debug = Layers(*(Attention(QUERY, "merge") for _ in range(2)))
    reference = Layers(*(Attention(VALUE, "o_proj") for _ in range(2)))
    pairs, _ = found(tmp_path, KINDS[kind], debug, reference)
    assert ends(pairs) == ROLES


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_gated_and_what_gates_are_roles(tmp_path: Path, kind: str) -> None:
    debug = Layers(*(Gated("up", "gate", "gate") for _ in range(2)))
    reference = Layers(*(Gated("gate_proj", "up_proj", "gate_proj") for _ in range(2)))
    pairs, _ = found(tmp_path, KINDS[kind], debug, reference)
    assert ends(pairs) >= {("up", "up_proj"), ("gate", "gate_proj"), ("out", "out")}


@pytest.mark.parametrize("kind", ["modules, other weights", "modules alone"])
def test_a_module_that_returns_more_is_known_by_its_first_result(tmp_path: Path, kind: str) -> None:
    debug = Layers(*(Attention(QUERY, "merge") for _ in range(2)))
    reference = Layers(*(Attention(VALUE, "o_proj", returns_weights=True) for _ in range(2)))
    pairs, side = found(tmp_path, KINDS[kind], debug, reference)
    modules = [name for name in side.origin if ".Attention.forward" in name]
    assert len(modules) == 2
    assert all(".Attention.forward" in pairs[name] for name in modules)


class Wrapped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(4, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.convolution(x)


class Convolutions(nn.Module):
    def __init__(self, kind: type[nn.Module], norm: str) -> None:
        super().__init__()
        self.conv_1x1 = Wrapped() if kind is Wrapped else nn.Conv1d(4, 4, 1)
        self.add_module(norm, nn.LayerNorm(8))
        self.name = norm

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.get_submodule(self.name)(self.conv_1x1(x)))


def test_a_layer_belongs_to_the_layer_and_not_to_what_is_called_like_it(tmp_path: Path) -> None:
    debug = nn.Sequential(*(Convolutions(nn.Conv1d, "norm") for _ in range(3)))
    reference = nn.Sequential(*(Convolutions(Wrapped, "last") for _ in range(3)))
    pairs, _ = found(tmp_path, without_calls, debug, reference)
    layers = [(name, other) for name, other in pairs.items() if ".Conv1d.forward" in name]
    assert layers
    assert all(".convolution.Conv1d.forward" in other for _, other in layers)


class Rows(nn.Module):
    """Factors and terms of one shape; another author casts between them."""

    def __init__(self, *, casts: bool) -> None:
        super().__init__()
        self.linear, self.casts = nn.Linear(8, 8), casts

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x)
        for step in range(1, 5):
            x = torch.mul(x, 0.1 * step)
            if self.casts:
                x = torch.clone(x)
            x = torch.add(x, 1.0)
            if not self.casts:
                x = torch.tanh(x)
        return x


def test_what_comes_one_of_the_other_is_told_by_its_order(tmp_path: Path) -> None:
    """By structure alone: no two of these calls could be made in another order."""
    debug = nn.Sequential(Rows(casts=False), Rows(casts=False))
    reference = nn.Sequential(Rows(casts=True), Rows(casts=True))
    pairs, _ = found(tmp_path, without_statistics, debug, reference)
    chain = {n: o for n, o in pairs.items() if n.startswith(("Torch.mul", "Torch.add"))}
    assert len([name for name in chain if name.endswith("forward")]) == 16
    assert all(name == other for name, other in chain.items())


def test_what_stays_open_is_offered_what_stands_between_the_same_partners(tmp_path: Path) -> None:
    sides = []
    for seed, kind, parts in ((1, Attention, PLAIN), (2, Spelled, WITHOUT)):
        torch.manual_seed(seed)
        model, x = Layers(*(kind(parts, "merge") for _ in range(2))), torch.randn(2, 4, 8)
        dump = record(tmp_path / str(seed), partial(train, model, x), model)
        sides.append(without_statistics(recording(dump.directory)))
    left, right, match = matched(sides[0].source(), sides[1].source(), DEFAULT_OPTIONS)
    names, others = left.tree.names, right.tree.names
    likely = match.npu_likely
    offered: dict[str, set[str]] = {}
    for node, one in zip(likely.node.tolist(), likely.candidate.tolist(), strict=True):
        offered.setdefault(names[node], set()).add(others[one])
    calls = [n for n in names if n.startswith("Functional.linear") and n.endswith("forward")]
    open_ = [n for n in calls if match.npu[names.index(n)] < 0]
    assert len(open_) >= 4
    for number, name in enumerate(calls):
        if name in open_:  # the three of one layer, in any order
            layer = number // 4
            right_ones = {f"Functional.linear.{4 * layer + place}.forward" for place in range(3)}
            assert offered[name] >= right_ones & {
                others[i] for i in np.flatnonzero(match.bench < 0).tolist()
            }


class Block(nn.Module):
    def __init__(self, *, bias: bool) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(8), nn.Linear(8, 8, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(self.linear(self.norm(x)))


class Tower(nn.Module):
    """Blocks under names that have no numbers."""

    def __init__(self, start: str) -> None:
        super().__init__()
        self.names = [f"{start}{letter}" for letter in "abcdefghijklmnopqrst"]
        for name in self.names:
            self.add_module(name, Block(bias=True))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for name in self.names:
            x = self.get_submodule(name)(x)
        return x


def nearly(record: Any) -> Any:
    """A record whose statistics differ in the fourth digit."""
    if isinstance(record, list):
        return [nearly(one) for one in record]
    if not isinstance(record, dict):
        return record
    scaled = ("Max", "Min", "Mean", "Norm")
    return {k: v * 1.0001 if k in scaled and v else nearly(v) for k, v in record.items()}


def test_with_other_weights_one_agreement_by_chance_moves_no_layers(tmp_path: Path) -> None:
    """All statistics of one block are those of another one on the other side."""
    sides = []
    for seed, start in ((1, "x"), (2, "y")):
        torch.manual_seed(seed)
        model, x = Tower(start), torch.randn(2, 4, 8)
        for parameter in model.parameters():
            nn.init.normal_(parameter)
        dump = record(tmp_path / str(seed), partial(train, model, x), model)
        sides.append(recording(dump.directory))
    npu, bench = sides
    for part in (".norm.LayerNorm.forward.0", ".linear.Linear.forward.0"):
        npu.data["Module.xb" + part] |= nearly(bench.data["Module.yf" + part])
    found = partners(npu.source(), bench.source())
    blocks = {n: o for n, o in found.items() if n.startswith("Module.x") and ".forward" in n}
    assert len(blocks) >= 20
    assert all(n.split(".")[1][1:] == o.split(".")[1][1:] for n, o in blocks.items()), blocks
