"""Backward of calls that add several nodes to the graph, or none."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from tests.collector.recording import record


def shown(entry: dict[str, Any]) -> dict[str, list[tuple[list[int], float] | None]]:
    """Shape and largest element of each gradient, by the key it stands under."""
    return {
        key: [None if item is None else (item["shape"], item["Max"]) for item in items]
        for key, items in entry.items()
        if isinstance(items, list)
    }


def test_of_several_outputs_the_node_of_the_first_is_the_established_one(tmp_path: Path) -> None:
    row = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    column = torch.tensor([[4.0], [5.0]], requires_grad=True)

    def step() -> None:
        wide, high = torch.broadcast_tensors(row, column)
        ((wide * 2).sum() + (high * 3).sum()).backward()

    dump = record(tmp_path, step, level="L1")
    assert shown(dump.data["Torch.broadcast_tensors.0.backward"]) == {
        "input": [([2, 3], 2.0)],
        "output": [([1, 3], 4.0)],
        "output_gradients": [([2, 3], 2.0), ([2, 3], 3.0)],
        "input_gradients": [([1, 3], 4.0), ([2, 1], 9.0)],
    }


def test_a_call_that_hands_on_what_it_was_given_has_no_node_of_its_own(tmp_path: Path) -> None:
    leaf = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)

    def step() -> None:
        ((leaf * 5).contiguous() * 2).sum().backward()

    dump = record(tmp_path, step, level="L1")
    entry = dump.data["Tensor.contiguous.0.backward"]
    assert shown(entry) == {"input": [([3], 2.0)], "output": [([3], 2.0)]}


def test_a_tensor_that_a_node_sends_to_two_arguments_is_described_for_each(tmp_path: Path) -> None:
    one, other = (torch.ones(2, requires_grad=True) for _ in range(2))
    dump = record(tmp_path, lambda: (torch.add(one, other) * 3).sum().backward(), level="L1")
    entry = dump.data["Torch.add.0.backward"]
    assert shown(entry) == {"input": [([2], 3.0)], "output": [([2], 3.0), ([2], 3.0)]}


def test_shares_that_no_node_tells_apart_stand_as_their_sum_at_each_argument(
    tmp_path: Path,
) -> None:
    one = torch.tensor([[1.0, 0.0], [0.0, 2.0]], requires_grad=True)

    def step() -> None:
        torch.linalg.multi_dot([one, one, one]).sum().backward()

    dump = record(tmp_path, step, level="L1")
    [name] = [name for name in dump.names() if "multi_dot" in name and "backward" in name]
    parts = [one.detach().clone().requires_grad_() for _ in range(3)]
    apart = torch.autograd.grad(torch.linalg.multi_dot(parts).sum(), parts)
    whole = sum(part.mean().item() for part in apart)
    assert [item["Mean"] for item in dump.data[name]["input_gradients"]] == [whole] * 3
