"""What rows of the table claim of how a kernel computes, which its results alone do not tell."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from msprobe_builder.align.evidence.classes import kind_of_class
from msprobe_builder.operators.operator import Kind
from msprobe_builder.operators.table import named, spellings
from msprobe_operators.dump.mindspore import name_in_torch
from msprobe_operators.rerun.perturb import RoundedSteps
from tests.builder.operators.test_claims import alike, called, of, run


@pytest.mark.parametrize("name", of(lambda row: "sums_last" in row.traits))
def test_the_last_dimension_of_a_factor_is_summed_over(name: str) -> None:
    """Of ones each element counts the products that it is a sum of, and what is added to them."""
    row, function, arguments = called(name)
    ones = [torch.ones_like(one) for one in arguments]
    terms = ones["adds_product" in row.traits].shape[-1]
    count = int(run(function, ones)[0].flatten()[0])
    assert count >= terms
    assert count % terms in (0, 1)


class Steps(RoundedSteps):  # type: ignore[no-untyped-call]
    """Counts the steps that are off."""

    count = 0

    def _moved(self, result: Any) -> Any:
        self.count += 1
        return super()._moved(result)


@pytest.mark.parametrize("name", of(lambda row: "cancels" in row.traits))
def test_what_cancels_inside_can_be_taken_apart(name: str) -> None:
    """It computes the same in several steps, each of which is off by a little."""
    _, function, arguments = called(name)
    plain = run(function, arguments)[0].double()
    with Steps(1e-9) as steps:
        noisy = run(function, arguments)[0].double()
    assert steps.count > 1
    assert torch.allclose(noisy, plain, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", of(lambda row: "same_in_mindspore" in row.traits))
def test_what_mindspore_calls_as_torch_does_is_called_in_torch(name: str) -> None:
    """By the function of its row; a Primitive whose settings no dump has is not."""
    row, function, arguments = called(name)
    stem = name_in_torch(f"Functional.{name}.0").split(".")
    place = {"Functional": torch.nn.functional, "Torch": torch}[stem[0]]
    assert alike(run(getattr(place, stem[1]), arguments), run(function, arguments))
    for other in spellings("mindspore").get(name, ()):
        is_called = name_in_torch(f"Primitive.{other}.0") != f"Primitive.{other}.0"
        assert is_called <= ("same_primitive" in row.traits)


_LAYERS = {
    Kind.NORMALISE: "BatchNorm1d",
    Kind.POINTWISE: "ReLU",
    Kind.LOSS: "MSELoss",
    Kind.LOOKUP: "Embedding",
}


@pytest.mark.parametrize("row", spellings("class"))
def test_classes_of_one_row_do_one_thing(row: str) -> None:
    kinds = {kind_of_class(one) for one in spellings("class")[row]}
    assert len(kinds) == 1
    others = {kind_of_class(one) for one in _LAYERS.values()}
    assert len(others) == len(_LAYERS)
    if named(row).kind in _LAYERS and not row.endswith(("softmax", "softmin")):
        assert kinds == {kind_of_class(_LAYERS[named(row).kind])}
