"""Tensors that modules hand on in whatever holds them."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import dataclasses
from collections import UserDict, deque
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
