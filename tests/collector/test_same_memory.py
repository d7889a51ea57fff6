"""What several tensors show is measured once; other numbers are never taken for it."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.collector.recording import record, tensors

Show = Callable[[torch.Tensor], Any]


def aliases_of_an_array(show: Show) -> None:
    """Written to behind the version counter, by which the sum stays what it was."""
    x = torch.arange(16.0).view(4, 4) + 0
    show(x.detach())
    numbers = x.numpy()
    numbers[0, 0] -= 64
    numbers[3, 3] += 64
    show(x.detach())
    show(x.view(-1))
    numbers[2] *= 2
    show(x.detach())


def memory_that_is_used_again(show: Show) -> None:
    """Only the storage tells them apart: the address and the sum are the same."""
    ones, pattern = torch.ones(64, 64), torch.tensor([[1.0, -1, 2, -2] * 16] * 64)
    for factor in range(20):
        show(torch.add(ones, pattern, alpha=factor))


def parts_that_add_up_to_the_same(show: Show) -> None:
    x = torch.tensor([[1.0, 1, 5, 5], [1, 1, 1, 1], [3, 3, 0, 0], [3, 3, 0, 0]]) + 0
    show(x[:2])
    show(x[:, :2])
    show(x[:2])


def other_orders(show: Show) -> None:
    square = torch.randn(3, 3) * 1
    show(square)
    show(square.t())
    square.t()[0] = 5
    show(square)
    show(square.t())
    show(square[:, :2])
    show(square.t()[:2])
    show(torch.ones(1, 3).expand(3, 3))


def other_meanings(show: Show) -> None:
    numbers = torch.randn(3, dtype=torch.complex64) * 1
    show(numbers)
    show(numbers.conj())
    show(numbers.imag)
    show(numbers.conj().imag)
    square = torch.randn(3, 3) * 1
    show(square)
    show(torch._neg_view(square))
    show(square.view(torch.int32))
    show(square.detach().requires_grad_())


def other_storages(show: Show) -> None:
    x = torch.zeros(6) + 1
    show(x)
    x.set_(torch.arange(6.0).untyped_storage(), 0, (6,), (1,))
    show(x)
    x.data = torch.arange(6.0) * 2
    show(x)
    x.resize_(3)
    show(x)


@pytest.mark.parametrize(
    "run",
    [
        aliases_of_an_array,
        memory_that_is_used_again,
        parts_that_add_up_to_the_same,
        other_orders,
        other_meanings,
        other_storages,
    ],
)
@pytest.mark.parametrize("config", [{}, {"summary_mode": "md5"}, {"task": "tensor"}])
def test_other_numbers_in_the_same_place_are_measured(
    run: Callable[[Show], None], config: dict[str, Any], tmp_path: Path
) -> None:
    seen: list[torch.Tensor] = []

    class Showing(nn.Identity):
        pass

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.show = Showing()

        def forward(self) -> None:
            run(self.show)

    def keep(_module: nn.Module, given: tuple[torch.Tensor, ...]) -> None:
        seen.append(given[0].detach().clone())

    model = Model()
    model.show.register_forward_pre_hook(keep)
    options = {config.get("task", "statistics"): config}
    dump = record(tmp_path, model, model, task=config.get("task", "statistics"), **options)
    assert seen
    for number, wanted in enumerate(seen):
        item = dump.data[f"Module.show.Showing.forward.{number}"]["input_args"][0]
        assert item["shape"] == list(wanted.shape)
        values = wanted.abs() if wanted.is_complex() else wanted.double()
        found = [item["Max"], item["Min"], item["Mean"]]
        exact = [values.max().item(), values.min().item(), values.mean().item()]
        assert found == pytest.approx(exact, rel=1e-5, abs=1e-6), (number, item, wanted)
        if not wanted.is_complex():
            assert item["Norm"] == pytest.approx(values.norm().item(), rel=1e-5)


def test_the_gradient_beside_a_parameter_is_saved_with_the_one_that_arrived(
    tmp_path: Path,
) -> None:
    model = nn.Sequential(nn.Linear(3, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)

    def step() -> None:
        model(torch.randn(4, 3)).sum().backward()
        optimizer.step()

    dump = record(tmp_path, step, model, task="tensor")
    index = json.loads((dump.directory / "dump_tensor_data" / "index.json").read_text())
    arrived = dict(tensors(dump.data["Module.0.Linear.parameters_grad"]))
    taken = [
        item
        for name in dump.names("Tensor.add_")
        for _, item in tensors(dump.data[name]["input_args"][1])
    ]
    places = {index[item["data_name"]]["offset"] for item in arrived.values()}
    assert len(places) == len(taken) == 2
    assert {index[item["data_name"]]["offset"] for item in taken} == places
