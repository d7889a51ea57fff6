"""Flat buffers of which a training takes part after part, as DeepSpeed's and Megatron's do."""

# mypy: disable-error-code="no-untyped-call"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from tests.collector.recording import Dump, record

MANY = (1 << 22) + 8  # numbers


def recorded(tmp_path: Path, size: int, task: str = "statistics") -> Dump:
    model = nn.Linear(4, 4)

    def step() -> None:
        model(torch.ones(2, 4)).sum().backward()
        buffer = torch.empty(size)
        part = buffer.narrow(0, 4, 16)
        gradient = model.weight.grad
        assert gradient is not None
        part.copy_(gradient.view(-1))
        buffer[:64].view(2, 32)
        buffer.split([size - 8, 8])[1].fill_(3.0)
        buffer.mul_(0.0).nan_to_num_().add_(2.0)  # of whatever memory held
        buffer.view(2, -1)[0].sum()

    return record(tmp_path, step, model, task=task)


def numbers(dump: Dump, name: str, part: str, position: int = 0) -> tuple[object, object]:
    item = dump.data[name][part][position]
    return item["Max"], item["Norm"]


def test_numbers_of_no_meaning_are_not_read(tmp_path: Path) -> None:
    dump = recorded(tmp_path, MANY)
    nothing = (None, None)
    assert numbers(dump, "Torch.empty.0.forward", "output") == nothing
    for name in ("Tensor.narrow.0", "Tensor.__getitem__.0", "Tensor.split.0"):
        assert numbers(dump, f"{name}.forward", "input_args") == nothing
        assert dump.data[f"{name}.forward"]["input_args"][0]["shape"] == [MANY]
    assert numbers(dump, "Tensor.copy_.0.forward", "output") == (2.0, 8.0)
    assert numbers(dump, "Tensor.fill_.0.forward", "output")[0] == 3.0
    # What a call reads or makes as a whole has its numbers, and so has what is no flat buffer.
    whole = (2.0, pytest.approx(2.0 * MANY**0.5))
    assert numbers(dump, "Tensor.add_.0.forward", "output") == whole
    assert numbers(dump, "Tensor.view.2.forward", "input_args") == whole
    assert numbers(dump, "Tensor.__getitem__.1.forward", "input_args") == whole


def test_what_is_small_is_read_whatever_becomes_of_it(tmp_path: Path) -> None:
    dump = recorded(tmp_path, 1 << 20)
    for name in ("Tensor.narrow.0", "Tensor.split.0"):
        assert isinstance(numbers(dump, f"{name}.forward", "input_args")[0], float)


def test_buffers_are_not_saved_for_each_part(tmp_path: Path) -> None:
    dump = recorded(tmp_path, MANY, "tensor")
    assert "data_name" not in dump.data["Tensor.narrow.0.forward"]["input_args"][0]
    assert "data_name" in dump.data["Tensor.copy_.0.forward"]["output"][0]
