"""Where records stand: what is inside of a call before it, parents before their children."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from msprobe_collector.record.backward_calls import _alike
from msprobe_collector.record.framework import Item
from tests.collector.models import MODELS, loss_of
from tests.collector.recording import record


@pytest.mark.parametrize("name", MODELS)
def test_a_call_is_written_down_when_what_it_holds_is_over(name: str, tmp_path: Path) -> None:
    build, data = MODELS[name]
    model, batch = build(), data()
    dump = record(tmp_path, lambda: loss_of(model, batch).backward(), model)
    record_of = {key: place for place, key in enumerate(dump.data)}
    placed = {key: place for place, key in enumerate(dump.parents)}
    inside = [(key, parent) for key, parent in dump.parents.items() if parent is not None]
    assert len(inside) > 5
    assert not [key for key, parent in inside if placed[key] < placed[parent]]
    # Of a call that only hands on what it was given, nothing in the graph tells when it is over.
    late = {key for key, _ in inside if key.startswith("Tensor.float.")}
    assert not [
        key for key, parent in inside if key not in late and record_of[key] > record_of[parent]
    ]


class Masked(nn.Module):
    """Takes its tensor behind an argument that no gradient belongs to."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(3))
        self.scale = nn.Parameter(torch.ones(3))
        self.unused = nn.Parameter(torch.ones(3))

    def forward(self, mask: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return mask.clone(), (x * mask + self.bias) * self.scale


def test_of_a_module_only_what_takes_a_gradient_is_shown(tmp_path: Path) -> None:
    model = nn.Sequential()
    model.add_module("masked", Masked())
    mask = torch.tensor([1.0, 0.0, 1.0])
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)

    def step() -> None:
        (model.get_submodule("masked")(mask, x * 1)[1] * 4).sum().backward()

    dump = record(tmp_path, step, model, level="L0")
    entry = dump.data["Module.masked.Masked.backward.0"]
    assert [item["Max"] for item in entry["input"]] == [4.0]
    assert [(item["Max"], item["Min"]) for item in entry["output"]] == [(4.0, 0.0)]
    gradients = dump.data["Module.masked.Masked.parameters_grad"]
    # As the module names them; what has none is left out.
    assert list(gradients) == ["bias", "scale"]
    assert [item["Max"] for [item] in gradients.values()] == [4.0, 12.0]


def test_a_call_that_only_reads_tensors_is_recorded(tmp_path: Path) -> None:
    dump = record(
        tmp_path,
        lambda: (torch.equal(torch.ones(2), torch.zeros(2)), torch.ones(2).tolist()),
        level="L1",
    )
    assert dump.data["Torch.equal.0.forward"]["output"] == [{"type": "bool", "value": False}]
    assert [item["Max"] for item in dump.data["Torch.equal.0.forward"]["input_args"]] == [1.0, 0.0]


def test_gradients_that_a_framework_sets_are_those_of_the_pass_in_which_it_does(
    tmp_path: Path,
) -> None:
    """As sharded optimizers do: no hook on the parameter tells of them."""
    model = nn.Sequential()
    masked = Masked()
    masked.other = nn.Parameter(torch.ones(3))
    model.add_module("masked", masked)
    masked.unused.grad = torch.full((3,), 9.0)  # of before, which no pass brings
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)

    def step() -> None:
        y = x * 1

        def set_gradient(_gradient: torch.Tensor) -> None:
            masked.other.grad = torch.full((3,), 7.0)

        y.register_hook(set_gradient)
        (masked(torch.ones(3), y)[1] * 4).sum().backward()
        masked.other.grad = torch.full((3,), 5.0)  # clipped, say

    dump = record(tmp_path, step, model, level="L0")
    gradients = dump.data["Module.masked.Masked.parameters_grad"]
    assert {key: item["Max"] for key, [item] in gradients.items()} == {
        "bias": 4.0,
        "scale": 12.0,
        "other": 7.0,
    }


A: Item = {"Max": 1.0}
B: Item = {"Max": 1.0}


@pytest.mark.parametrize(
    ("own", "other", "alike"),
    [
        ([], [], True),
        ([A], [A], True),
        ([A], [B], False),  # equal, and not the same
        ([A, B], [B, A], False),
        ([A, None], [A], True),
        ([A], [A, None], True),
        ([A, B], [A], False),
        ([A], [A, B], False),
        ([None, A], [A], False),
        ([None], [], True),
    ],
)
def test_gradients_are_shown_twice_where_they_are_not_the_same(
    own: list[Item | None], other: list[Item | None], alike: bool
) -> None:
    assert _alike(own, other) is alike
