"""Two versions of one code, its lines in another order: they tell which calls belong together."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

from msprobe_builder.dump.source import InMemoryDump
from tests.alignment.respell import recording, without_statistics
from tests.alignment.score import partners
from tests.collector.recording import record

HEAD = """
import torch
from torch import nn


def turned(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(8, 8)
        self.k_proj = nn.Linear(8, 8)
        self.v_proj = nn.Linear(8, 8)

    def forward(self, x):
"""
PROJECTED = """
        query, key, value = self.q_proj(x), self.k_proj(x), self.v_proj(x)
"""
EXCHANGED = """
        query, value, key = self.q_proj(x), self.k_proj(x), self.v_proj(x)
"""
LINES = (
    "query = query.view(2, 4, 2, 4).transpose(1, 2)",
    "key = key.view(2, 4, 2, 4).transpose(1, 2)",
    "value = value.view(2, 4, 2, 4).transpose(1, 2)",
    "query = query * 0.9 + turned(query) * 0.1",
    "key = key * 0.9 + turned(key) * 0.1",
)
TAIL = """
        weights = torch.softmax(query @ key.transpose(2, 3), dim=-1)
        return (weights @ value).transpose(1, 2).reshape(2, 4, 8)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Attention() for _ in range(2))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x
"""
ORDERS = {"npu": (2, 1, 4, 0, 3), "bench": (0, 1, 2, 3, 4)}


def code(order: tuple[int, ...], change: str, projected: str) -> str:
    """The source of one version, every line made unlike by ``change``."""
    lines = "".join(f"        {LINES[number]}{change}\n" for number in order)
    return HEAD + projected + lines + TAIL


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def recorded(
    folder: Path,
    side: str,
    change: str = "",
    *,
    order: tuple[int, ...] | None = None,
    projected: str = PROJECTED,
) -> Path:
    """One training step of a version, with statistics and stacks."""
    source = folder / f"model_{side}.py"
    source.write_text(code(order or ORDERS[side], change, projected), encoding="utf-8")
    torch.manual_seed(3)
    model = loaded(source).Model()
    x = torch.randn(2, 4, 8)

    def step() -> None:
        model(x).square().mean().backward()

    return record(folder / side, step, model).directory


def outputs(directory: Path) -> dict[str, str]:
    """What each forward call put out, by its statistics: the name of the call."""
    data = json.loads((directory / "dump.json").read_text("utf-8"))["data"]
    found: dict[str, list[str]] = {}
    for name, call in data.items():
        if name.endswith(".forward") and call.get("output"):
            (one,) = call["output"]
            key = repr([one[column] for column in ("shape", "Max", "Min", "Mean", "Norm")])
            found.setdefault(key, []).append(name)
    return {key: names[0] for key, names in found.items() if len(names) == 1}


def dump(directory: Path, *, statistics: bool, stacks: bool) -> InMemoryDump:
    """The dump with or without these."""
    content = recording(directory)
    source = (content if statistics else without_statistics(content)).source()
    stack = json.loads((directory / "stack.json").read_text("utf-8")) if stacks else {}
    return InMemoryDump(source.dump, source.construct, stack)


@pytest.mark.parametrize(
    ("statistics", "stacks"), [(True, True), (True, False), (False, True), (False, False)]
)
def test_lines_in_another_order(tmp_path: Path, *, statistics: bool, stacks: bool) -> None:
    """All names are there on both sides, in the same number; half of them mean another call.

    The truth: calls that put out the same tensor. Only where there is neither a statistic nor a
    line of code nothing tells.
    """
    npu, bench = (recorded(tmp_path, side) for side in ORDERS)
    truth, other = outputs(npu), outputs(bench)
    pairs = {truth[key]: other[key] for key in truth.keys() & other.keys()}
    assert len(pairs) > 50
    assert sum(name != partner for name, partner in pairs.items()) > 25
    left, right_side = (dump(one, statistics=statistics, stacks=stacks) for one in (npu, bench))
    found = partners(left, right_side)
    right = [name for name, partner in pairs.items() if found.get(name) == partner]
    wrong = [name for name, partner in pairs.items() if found.get(name, partner) != partner]
    if statistics or stacks:
        assert not wrong
        assert len(right) >= (1.0 if statistics else 0.7) * len(pairs)
    else:
        assert len(right) < 0.5 * len(pairs)


def test_lines_of_one_side_say_nothing(tmp_path: Path) -> None:
    """Another author's lines are none of the other side's: as if there were no stacks."""
    npu, bench = recorded(tmp_path, "npu", "  # reworded"), recorded(tmp_path, "bench")
    found = [
        partners(
            dump(npu, statistics=False, stacks=stacks), dump(bench, statistics=False, stacks=stacks)
        )
        for stacks in (True, False)
    ]
    assert found[0] == found[1]


def test_equal_lines_that_put_out_something_else_are_a_fault(tmp_path: Path) -> None:
    """Keys and values exchanged: each line is still the counterpart of itself."""
    npu = recorded(tmp_path, "npu", order=ORDERS["bench"], projected=EXCHANGED)
    bench = recorded(tmp_path, "bench")
    found = partners(
        dump(npu, statistics=True, stacks=True), dump(bench, statistics=True, stacks=True)
    )
    views = [name for name in found if name.startswith(("Tensor.view.", "Tensor.transpose."))]
    assert len(views) > 10
    assert all(found[name] == name for name in views)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.down(self.norm(nn.functional.gelu(self.up(x))) * 2.0)
        return result


class Twins(nn.Module):
    """One encoder for two inputs, which of them first is a matter of taste."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self.encoder, self.first = Encoder(), first

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        given = (x, y)
        encoded = {number: self.encoder(given[number]) for number in (self.first, 1 - self.first)}
        result: torch.Tensor = (encoded[0] @ encoded[1].T).softmax(-1)
        return result


def test_a_module_called_in_another_order(tmp_path: Path) -> None:
    """Its calls belong to those with the same results, and so does all that is made inside."""
    directories = []
    for side in (0, 1):
        torch.manual_seed(0)
        model, x, y = Twins(side), torch.randn(4, 8), torch.randn(4, 8)

        def step(model: nn.Module = model, x: torch.Tensor = x, y: torch.Tensor = y) -> None:
            model(x, y).square().sum().backward()

        directories.append(record(tmp_path / str(side), step, model).directory)
    npu, bench = directories
    truth, other = outputs(npu), outputs(bench)
    pairs = {truth[key]: other[key] for key in truth.keys() & other.keys()}
    assert sum(name != partner for name, partner in pairs.items()) > 6
    found = partners(
        dump(npu, statistics=True, stacks=False), dump(bench, statistics=True, stacks=False)
    )
    assert {name: found.get(name) for name in pairs} == pairs
    modules = [name for name in found if name.startswith("Module.encoder") and "forward" in name]
    assert len(modules) == 8
    for name in modules:
        stem, _, call = name.rpartition(".")
        assert found[name] == f"{stem}.{1 - int(call)}"
