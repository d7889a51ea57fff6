"""What needs a gradient on one side only: a parameter that is frozen, a branch that is cut off."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builder.small_dumps import Record, forward, tensor
from tests.builder.verdict.test_unknown import asked

LINEAR = "Module.layers.2.Linear.forward.0"


def needing(norm: float, needs: bool) -> Record:
    return {**tensor(norm, high=norm / 2, low=-norm / 3), "requires_grad": needs}


def trained(weight: bool, branch: bool) -> dict[str, Record]:
    """Layers, of which one may be frozen, and a call that may cut off what it is given."""
    layers = {}
    for place in range(8):
        norms = 2.0 + place, 3.0 + place
        whole = forward([needing(norms[0], place > 0)], [needing(norms[1], True)])
        needs = weight if place == 2 else True
        whole["parameters"] = {"weight": needing(20.0 + place, needs)}
        layers[f"Module.layers.{place}.Linear.forward.0"] = whole
    relu = forward([needing(10.0, True)], [needing(4.0, branch)])
    return layers | {"Functional.relu.0.forward": relu}


@pytest.mark.parametrize(
    ("npu", "node", "words"),
    [
        ((False, True), LINEAR, "weight needs a gradient on one side only: it is frozen"),
        ((True, False), "Functional.relu.0.forward", "a branch is cut off from training"),
    ],
)
def test_it_is_said_which_of_the_two_it_is(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    npu: tuple[bool, bool],
    node: str,
    words: str,
) -> None:
    answer = asked(tmp_path, capsys, trained(*npu), trained(True, True))
    best = answer["suspects"][0]
    assert best["node"] == node
    assert words in best["evidence"]


def trained_from(first: int) -> dict[str, Record]:
    """Layers of which those before ``first`` are frozen, and an activation behind each."""
    layers = {}
    for place in range(8):
        learns = place >= first
        whole = forward([needing(2.0 + place, place > first)], [needing(3.0 + place, learns)])
        whole["parameters"] = {"weight": needing(20.0 + place, learns)}
        layers[f"Module.layers.{place}.Linear.forward.0"] = whole
        act = forward([needing(3.0 + place, learns)], [needing(3.0 + place, learns)])
        layers[f"Functional.relu.{place}.forward"] = act
    return layers


@pytest.mark.parametrize("is_turned", [False, True])
def test_what_is_made_of_frozen_layers_was_not_cut_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, is_turned: bool
) -> None:
    """As adapters are trained in a frozen model, and the merged one as a whole."""
    first, second = (0, 5) if is_turned else (5, 0)
    answer = asked(tmp_path, capsys, trained_from(first), trained_from(second))
    assert not [one for one in answer["suspects"] if "cut off" in " ".join(one["evidence"])]


@pytest.mark.parametrize("norm", [4.0, 0.0, 40.0])
def test_of_another_value_it_is_another_tensor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], norm: float
) -> None:
    """Cutting a branch off changes nothing that a forward pass computes."""
    debug, reference = trained(True, False), trained(True, True)
    debug["Functional.relu.0.forward"]["output"] = [needing(norm, False)]
    answer = asked(tmp_path, capsys, debug, reference)
    told = [one["cause"] for one in answer["suspects"]]
    assert ("gradient" in told) is (norm == 4.0), told
