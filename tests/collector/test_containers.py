"""Tensors that modules hand on in whatever holds them."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import dataclasses
from collections import UserDict, deque
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from tests.collector.recording import record, saved_tensor, tensors


class Batch(UserDict[str, Any]):
    """As tokenizers return it."""


@dataclasses.dataclass
class Result:
    loss: Any
    parts: list[Any]


class Fields:
    """As the decorator of attrs leaves it, which tells its fields so."""

    __attrs_attrs__ = (SimpleNamespace(name="first"), SimpleNamespace(name="second"))
    __slots__ = ("first", "second")

    def __init__(self, first: Any, second: Any) -> None:
        self.first = first
        self.second = second


class Memory:
    """As the caches of language models: objects in a list of an object."""

    def __init__(self, first: Any, second: Any) -> None:
        self.name = "memory"
        self.layers = [Slots(first), 3, Slots(second)]
        self.owner = self  # such as a batch that knows its parts, which know it
        self.again = first


class Slots:
    __slots__ = ("keys", "unset")

    def __init__(self, keys: Any) -> None:
        self.keys = keys


class Holding(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.inner = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.inner(x)
        return {
            "user dict": lambda: Batch(first=y * 2, second=[y * 3]),
            "queue": lambda: deque([y * 2, y * 3]),
            "fields": lambda: Fields(y * 2, (y * 3,)),
            "dataclass": lambda: Result(y * 2, [y * 3]),
            "view of a dict": lambda: MappingProxyType({"first": y * 2, "second": y * 3}),
            "object": lambda: Memory(y * 2, y * 3),
        }[self.kind]()


class Taking(nn.Module):
    def forward(self, held: Any) -> torch.Tensor:
        found: list[torch.Tensor] = []
        if isinstance(held, Batch):
            found = [held["first"], *held["second"]]
        elif isinstance(held, deque):
            found = list(held)
        elif isinstance(held, Fields):
            found = [held.first, *held.second]
        elif isinstance(held, Result):
            found = [held.loss, *held.parts]
        elif isinstance(held, Memory):
            found = [layer.keys for layer in held.layers if isinstance(layer, Slots)]
        else:
            found = list(held.values())
        return found[0] + 10 * found[1]


class Outer(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.holding, self.taking = Holding(kind), Taking()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.taking(self.holding(x))
        return result


PLACES = {
    "user dict": ("first", "second.0"),
    "queue": ("0", "1"),
    "fields": ("first", "second.0"),
    "dataclass": ("loss", "parts.0"),
    "view of a dict": ("first", "second"),
    "object": ("layers.0.keys", "layers.2.keys"),
}


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_tensors_are_shown_by_their_place(kind: str, task: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Outer(kind)
    x = torch.randn(3, 2)
    inner = model.holding.inner
    y = (x @ inner.weight.T + inner.bias).detach()
    dump = record(tmp_path, lambda: model(x).sum().backward(), model, task=task, level="mix")

    produced = dump.data["Module.holding.Holding.forward.0"]["output"]
    taken = dump.data["Module.taking.Taking.forward.0"]["input_args"]
    for side in (produced, taken):
        found = dict(tensors(side))
        assert list(found) == [f".0.{place}" for place in PLACES[kind]]
        for item, factor in zip(found.values(), (2, 3), strict=True):
            assert item["Max"] == pytest.approx((y * factor).max().item())
            assert item["Norm"] == pytest.approx((y * factor).norm().item())
            if task == "tensor":
                saved = saved_tensor(dump.directory, item["data_name"])
                torch.testing.assert_close(saved, y * factor)
    backward = dump.data["Module.taking.Taking.backward.0"]
    norms = [item["Norm"] for item in backward["output"]]  # of ones, and of tens
    assert norms == pytest.approx([6**0.5, 10 * 6**0.5])


@pytest.mark.parametrize("kind", PLACES)
def test_gradients_are_found_where_the_forward_is_left_out(kind: str, tmp_path: Path) -> None:
    model = Outer(kind)
    dump = record(
        tmp_path,
        lambda: model(torch.ones(3, 2)).sum().backward(),
        model,
        statistics={"data_mode": ["backward"]},
    )
    backward = dump.data["Module.taking.Taking.backward.0"]
    norms = [item["Norm"] for item in backward["output"]]
    assert norms == pytest.approx([6**0.5, 10 * 6**0.5])
    assert len(dump.data["Module.holding.Holding.backward.0"]["input"]) == 2


def test_what_overflows_in_a_queue_is_saved(tmp_path: Path) -> None:
    """There the arguments are saved after the call, along the record that was made of them."""
    model = Outer("queue")
    with torch.no_grad():
        model.holding.inner.weight.fill_(1e38)
    dump = record(
        tmp_path,
        lambda: model(torch.ones(3, 2)),
        model,
        task="overflow_check",
        overflow_check={"overflow_nums": -1},
    )
    output = dump.data["Module.holding.Holding.forward.0"]["output"]
    saved = [saved_tensor(dump.directory, item["data_name"]) for _, item in tensors(output)]
    assert [part.isinf().all().item() for part in saved] == [True, True]


class Passing(nn.Module):
    """Hands on what it is given."""

    def __init__(self, use: Callable[[Any], Any]) -> None:
        super().__init__()
        self.inner = nn.Module()
        self.inner.forward = use

    def forward(self, value: Any) -> Any:
        return self.inner(value)


asked: list[str] = []


class Proxy:
    """As those that make, fetch or count what they stand for when they are asked."""

    def __init__(self) -> None:
        self.held = torch.full((2,), 3.0)

    @property
    def computed(self) -> torch.Tensor:
        return self._note("property")

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        asked.append("class")
        return torch.Tensor

    def __getattr__(self, name: str) -> Any:
        return self._note(name)

    def __len__(self) -> int:
        return self._note("length")

    def _note(self, what: str) -> Any:
        asked.append(what)
        raise RuntimeError(what)


class LazyTable(dict[Any, Any]):
    def items(self) -> Any:
        asked.append("items")
        return super().items()

    def values(self) -> Any:
        asked.append("values")
        return super().values()


class LazyRow(list[Any]):
    def __iter__(self) -> Any:
        asked.append("rows")
        return super().__iter__()

    def __len__(self) -> int:
        asked.append("length of rows")
        return super().__len__()


class Key:
    def __str__(self) -> str:
        asked.append("text")
        return "key"


@dataclasses.dataclass
class Computed:
    given: torch.Tensor
    made: Any = None

    def __getattribute__(self, name: str) -> Any:
        asked.append(name)
        return super().__getattribute__(name)


VALUES: dict[str, tuple[Callable[[], Any], str]] = {
    "proxy": (Proxy, ".0.held"),
    "table": (lambda: LazyTable(a=torch.full((2,), 3.0)), ".0.a"),
    "rows": (lambda: LazyRow([torch.full((2,), 3.0)]), ".0.0"),
    "key": (lambda: {Key(): torch.full((2,), 3.0)}, ".0.Key0"),
    "tensor as key": (lambda: {torch.ones(2): torch.full((2,), 3.0)}, ".0.Tensor0"),
    "dataclass": (lambda: Computed(torch.full((2,), 3.0)), ".0.given"),
}


@pytest.mark.parametrize("kind", VALUES)
def test_nothing_of_a_value_runs_when_it_is_shown(kind: str, tmp_path: Path) -> None:
    make, place = VALUES[kind]
    value = make()
    model = Passing(lambda value: value)
    asked.clear()
    dump = record(tmp_path, lambda: model(value), model, level="L0")
    assert not asked
    entry = dump.data["Module.inner.Module.forward.0"]
    for side in (entry["input_args"], entry["output"]):
        assert [(where, item["Max"]) for where, item in tensors(side)] == [(place, 3.0)]


def test_an_object_that_leads_to_everything_is_not_shown(tmp_path: Path) -> None:
    whole = SimpleNamespace(table={n: [n] for n in range(2000)}, x=torch.ones(2))
    chain: Any = torch.ones(1)
    for _ in range(600):
        chain = SimpleNamespace(inside=[chain])
    model = Passing(lambda value: value)
    dump = record(tmp_path, lambda: model([whole, chain, torch.ones(3)]), model, level="L0")
    entry = dump.data["Module.inner.Module.forward.0"]
    shown = [(where, item["shape"]) for where, item in tensors(entry["input_args"])]
    assert shown == [(".0.0.x", [2]), (".0.2", [3])]


@pytest.mark.parametrize("change", ["object", "list", "tensor"])
def test_what_overflows_is_saved_as_it_went_in(change: str, tmp_path: Path) -> None:
    """Or not at all: a file never holds other numbers than its record."""
    start = torch.full((2,), 4.0)
    held = {"object": SimpleNamespace(x=start), "list": [start], "tensor": start}[change]

    def use(value: Any) -> Any:
        if change == "object":
            value.x, value.y = value.x * 1e38, torch.ones(1)
        elif change == "list":
            value[0] = value[0] * 1e38
            value.append(torch.ones(1))
        else:
            value.mul_(1e38)
        return value

    model = Passing(use)
    dump = record(
        tmp_path,
        lambda: model(held),
        model,
        level="L0",
        task="overflow_check",
    )
    entry = dump.data["Module.inner.Module.forward.0"]
    ((_, item),) = tensors(entry["input_args"])
    assert item["Max"] == 4.0
    assert ("data_name" in item) == (change != "tensor")
    if "data_name" in item:
        assert saved_tensor(dump.directory, item["data_name"]).tolist() == [4.0, 4.0]
    result = next(item for _, item in tensors(entry["output"]))
    assert saved_tensor(dump.directory, result["data_name"]).isinf().all()
