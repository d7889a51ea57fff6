"""What the model of error knows of draws, formulas, modules and whole numbers: small real programs.

Each program is computed in double precision and written as a recorder would, so that what is right
follows from what was computed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from msprobe_builder import BuildConfig, build
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.verdict import Suspect, read_verdict
from tests.builder.small_dumps import Record, forward, number, write_dump

Array = NDArray[Any]


def recorded(values: Array, *, needs: bool = True) -> Record:
    """The statistics of a tensor, as single precision holds them."""
    whole = values.dtype.kind == "i"
    numbers = [values.max(), values.min(), values.mean(), np.linalg.norm(values)]
    told = np.array(numbers, dtype=np.float32)
    return {
        "type": "torch.Tensor",
        "dtype": "torch.int64" if whole else "torch.float32",
        "shape": list(values.shape),
        **dict(zip(("Max", "Min", "Mean", "Norm"), told.tolist(), strict=True)),
        "requires_grad": needs and not whole,
    }


class Program:
    """Calls in order, each of which was computed."""

    def __init__(self) -> None:
        self.data: dict[str, Record] = {}
        self.within: dict[str, str | None] = {}

    def call(self, name: str, given: list[Array], *made: Array, within: str | None = None) -> Array:
        self.data[name] = forward([recorded(one) for one in given], [recorded(one) for one in made])
        self.within[name] = within
        return made[0]

    def back(self, name: str, given: list[Array], *made: Array, within: str | None = None) -> Array:
        self.data[name] = {
            "input": [recorded(one) for one in given],
            "output": [recorded(one) for one in made],
        }
        self.within[name] = within
        return made[0]


def judged(folder: Path, make: Callable[[bool], Program]) -> list[Suspect]:
    """The suspects that the model names where ``make`` is given whether it is this run."""
    paths = []
    for is_debug in (True, False):
        program = make(is_debug)
        paths.append(write_dump(folder / f"{is_debug}", program.data, program.within))
    debug, reference = paths
    built = build(BuildConfig(debug, reference), folder / "out")
    with opened(built.path) as connection:
        verdict = read_verdict(connection)
    assert verdict is not None
    return list(verdict.suspects)


def values(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


def softmax(is_debug: bool, *, ends: bool) -> Program:
    """A softmax in which one program takes the largest off; without ``ends`` it never divides."""
    one, x = Program(), values(8, 16)
    largest = x.max(axis=1, keepdims=True)
    given = one.call("Functional.relu.0.forward", [x], x)
    if not is_debug:
        largest = one.call("Torch.amax.0.forward", [given], largest)
        given = one.call("Tensor.__sub__.0.forward", [given, largest], given - largest)
    powers = one.call("Torch.exp.0.forward", [given], np.exp(given))
    sums = one.call("Torch.sum.0.forward", [powers], powers.sum(axis=1, keepdims=True))
    last = powers / sums if ends else powers * sums
    name = "Tensor.__truediv__.0.forward" if ends else "Tensor.__mul__.0.forward"
    last = one.call(name, [powers, sums], last)
    for turn in range(3):
        last = one.call(f"Functional.tanh.{turn}.forward", [last], np.tanh(last))
    return one


def test_programs_that_meet_again_are_not_accused(tmp_path: Path) -> None:
    found = judged(tmp_path, lambda is_debug: softmax(is_debug, ends=True))
    assert not [one.node for one in found if one.strength == "strong"]
    assert "another formula" in found[0].evidence


def test_programs_that_do_not_are(tmp_path: Path) -> None:
    first = judged(tmp_path, lambda is_debug: softmax(is_debug, ends=False))[0]
    assert (first.strength, first.cause) == ("strong", "missing")


def turned(is_debug: bool) -> Program:
    """Rows that one run multiplies and reverses: normalised, they have the same numbers."""
    one, x = Program(), values(8, 16)
    given = one.call("Functional.tanh.0.forward", [x], np.tanh(x))
    if is_debug:
        reverse = 2 * np.eye(8)[::-1]
        given = one.call("Tensor.__matmul__.0.forward", [reverse, given], reverse @ given)
    unit = given / np.linalg.norm(given)
    unit = one.call("Functional.normalize.0.forward", [given], unit)
    weighed = one.call("Tensor.__mul__.0.forward", [unit, values(8, 1)], unit * values(8, 1))
    last = one.call("Torch.clamp.0.forward", [weighed], np.clip(weighed, 9.0, 10.0))
    one.call("Functional.sigmoid.0.forward", [last], 1 / (1 + np.exp(-last)))
    return one


def test_equal_numbers_in_another_order_are_no_meeting(tmp_path: Path) -> None:
    first = judged(tmp_path, turned)[0]
    assert (first.node, first.strength) == ("Tensor.__matmul__.0.forward", "strong")


def multiplied(is_debug: bool, *, again: bool) -> Program:
    """A factor of one run that a norm takes off behind the first place, not behind the second."""
    one, given = Program(), values(8, 16)
    for turn in range(1 + again):
        given = one.call(f"Functional.tanh.{turn}.forward", [given], np.tanh(given))
        if is_debug:
            given = one.call(f"Tensor.__mul__.{turn}.forward", [given], given * 3)
        if not turn:
            whole = np.abs(given).sum(keepdims=True)
            one.call("Torch.abs.0.forward", [given], np.abs(given))
            whole = one.call("Torch.sum.0.forward", [np.abs(given)], whole)
            given = one.call("Tensor.__truediv__.0.forward", [given, whole], given / whole)
        for place in range(4):
            name = f"Functional.sigmoid.{4 * turn + place}.forward"
            given = one.call(name, [given], 1 / (1 + np.exp(-given)))
    return one


@pytest.mark.parametrize("again", [False, True])
def test_what_meets_again_here_and_not_there_is_a_fault(again: bool, tmp_path: Path) -> None:
    found = judged(tmp_path, lambda is_debug: multiplied(is_debug, again=again))
    strong = [one.node for one in found if one.strength == "strong"]
    assert strong[:1] == (["Tensor.__mul__.0.forward"] if again else [])


def dropout(is_debug: bool, *, forward_differs: bool, backward_differs: bool) -> Program:
    """Dropout whose mask one run draws otherwise, in one or the other direction."""
    one, x = Program(), values(8, 16)
    mask, other = (np.random.default_rng(seed).random((8, 16)) > 0.5 for seed in (1, 2))
    ahead = other if is_debug and forward_differs else mask
    behind = other if is_debug and (forward_differs or backward_differs) else mask
    x = one.call("Functional.relu.0.forward", [x], np.maximum(x, 0))
    made = one.call("Functional.dropout.0.forward", [x], 2 * ahead * x)
    one.data["Functional.dropout.0.forward"]["input_args"] += [number(0.5), number(True)]
    one.call("Functional.tanh.0.forward", [made], np.tanh(made))
    g = values(8, 16, seed=3)
    one.back("Functional.tanh.0.backward", [g], g * (1 - np.tanh(made) ** 2))
    g = g * (1 - np.tanh(made) ** 2)
    back = one.back("Functional.dropout.0.backward", [g], 2 * behind * g)
    one.back("Functional.relu.0.backward", [back], back * (x > 0))
    return one


def test_a_gradient_of_other_numbers_than_were_drawn_is_named(tmp_path: Path) -> None:
    first = judged(
        tmp_path, lambda debug: dropout(debug, forward_differs=False, backward_differs=True)
    )[0]
    assert (first.node, first.strength) == ("Functional.dropout.0.backward", "strong")


def test_other_numbers_that_are_drawn_explain_what_follows(tmp_path: Path) -> None:
    found = judged(
        tmp_path, lambda debug: dropout(debug, forward_differs=True, backward_differs=False)
    )
    assert (found[0].node, found[0].cause) == ("Functional.dropout.0.forward", "random")
    assert not [one.node for one in found if one.strength == "strong"]


MODULE = "Module.layer.Layer.forward.0"


def kept_aside(is_debug: bool, *, is_used: bool) -> Program:
    """A module that keeps a number beside what it puts out; the fault is in that number."""
    one, x = Program(), values(8, 16)
    y = np.tanh(x)
    one.call(MODULE, [x], y)
    one.call("Functional.tanh.0.forward", [x], y, within=MODULE)
    squares = x**2
    one.call("Torch.square.0.forward", [x], squares, within=MODULE)
    loss = squares * (1.5 if is_debug else 1.0)
    one.call("Tensor.__mul__.0.forward", [squares], loss, within=MODULE)
    mean = one.call("Tensor.mean.0.forward", [loss], loss.mean(keepdims=True), within=MODULE)
    last = one.call("Functional.sigmoid.0.forward", [y], 1 / (1 + np.exp(-y)))
    if is_used:
        one.call("Tensor.__add__.0.forward", [last, mean], last + mean)
    return one


def test_what_leaves_a_module_otherwise_than_in_its_outputs_is_named(tmp_path: Path) -> None:
    first = judged(tmp_path, lambda is_debug: kept_aside(is_debug, is_used=True))[0]
    assert (first.node, first.strength) == ("Tensor.__mul__.0.forward", "strong")


def test_what_nobody_uses_is_not(tmp_path: Path) -> None:
    found = judged(tmp_path, lambda is_debug: kept_aside(is_debug, is_used=False))
    assert not [one.node for one in found if one.strength == "strong"]


def counted(is_debug: bool, *, more: float) -> Program:
    """Whole numbers whose mean one recorder tells otherwise, by ``more`` of one of them."""
    one, places = Program(), np.arange(50)
    one.call("Torch.arange.0.forward", [], places)
    if is_debug:
        one.data["Torch.arange.0.forward"]["output"][0]["Mean"] += more / 50
    rows = values(50, 8)
    one.call("Functional.embedding.0.forward", [places, rows], rows)
    one.data["Functional.embedding.0.forward"]["input_args"][0] = one.data[
        "Torch.arange.0.forward"
    ]["output"][0]
    one.call("Functional.tanh.0.forward", [rows], np.tanh(rows))
    return one


@pytest.mark.parametrize(("more", "is_named"), [(0.2, False), (0.4, False), (1.0, True), (7, True)])
def test_whole_numbers_differ_by_a_whole_number(
    more: float, is_named: bool, tmp_path: Path
) -> None:
    found = judged(tmp_path, lambda is_debug: counted(is_debug, more=more))
    assert ([one.node for one in found[:1]] == ["Torch.arange.0.forward"]) is is_named


def carried(is_debug: bool) -> Program:
    """A state that one run does not set to zero before it goes on."""
    one, decay = Program(), np.abs(values(8, 16))
    state = values(8, 16, seed=1) if is_debug else np.zeros((8, 16))
    x = values(8, 16, seed=2)
    made = one.call("Functional.sigmoid.0.forward", [decay], 1 / (1 + np.exp(-decay)))
    kept = one.call("Tensor.__mul__.0.forward", [made, state], made * state)
    last = one.call("Tensor.__add__.0.forward", [kept, x], kept + x)
    one.call("Functional.tanh.0.forward", [last], np.tanh(last))
    return one


def test_what_stands_where_the_reference_has_zeros_is_named(tmp_path: Path) -> None:
    first = judged(tmp_path, carried)[0]
    assert (first.node, first.strength) == ("Tensor.__mul__.0.forward", "strong")


def joined(is_debug: bool) -> Program:
    """Parts that one run joins in reversed order; a weight tells them apart behind."""
    one = Program()
    x = [values(8, seed=seed) * (seed + 1) for seed in range(3)]
    parts = [
        one.call(f"Functional.tanh.{n}.forward", [part], np.tanh(part) * (n + 1))
        for n, part in enumerate(x)
    ]
    order = parts[::-1] if is_debug else parts
    whole = one.call("Torch.stack.0.forward", order, np.stack(order))
    weighed = one.call("Tensor.__mul__.0.forward", [whole, values(3, 1)], whole * values(3, 1))
    one.call("Tensor.exp.0.forward", [weighed], np.exp(weighed))
    return one


def test_tensors_that_are_joined_in_another_order_are_named(tmp_path: Path) -> None:
    first = judged(tmp_path, joined)[0]
    assert first.node == "Torch.stack.0.forward"


def squared(one: Program, number: int, given: Array) -> Array:
    square = one.call(f"Tensor.square.{number}.forward", [given], given**2)
    return one.call(f"Tensor.sum.{number}.forward", [square], np.array(square.sum()))


def clipped(is_debug: bool) -> Program:
    """A norm of three parts: one is next to nothing, and one is left out by this run."""
    one, x, g = Program(), values(64), values(64, seed=1)
    noise = 1e-7 * values(64, seed=2) if is_debug else 0.0
    near = one.call("Functional.tanh.0.forward", [x], np.tanh(x) * (1 + noise))
    nearly = np.tanh(x) * (1 + 1e-8)
    nothing = one.call("Tensor.__sub__.0.forward", [near, nearly], near - nearly)
    parts = [squared(one, number, part) for number, part in enumerate((near, nothing))]
    other = squared(one, 2, np.tanh(g))
    whole = one.call("Torch.stack.0.forward", parts, np.stack(parts))
    total = one.call("Tensor.sum.3.forward", [whole], np.array(whole.sum()))
    if not is_debug:
        total = one.call("Tensor.__add__.0.forward", [total, other], total + other)
    one.call("Torch.sqrt.0.forward", [total], np.sqrt(total))
    return one


def test_what_weighs_little_among_the_joined_hides_nothing_of_the_whole(tmp_path: Path) -> None:
    first = judged(tmp_path, clipped)[0]
    assert (first.node, first.side) == ("Tensor.__add__.0.forward", "bench")
    assert first.strength == "strong"


def trained(is_debug: bool) -> Program:
    """A linear layer whose weight gets 5 % more gradient; nothing else of the module shows it."""
    one, x, weight = Program(), values(8, 16), values(4, 16, seed=1)
    module = "Module.layer.Linear"
    one.call(f"{module}.forward.0", [x], x @ weight.T)
    one.call("Functional.linear.0.forward", [x, weight], x @ weight.T, within=f"{module}.forward.0")
    g = values(8, 4, seed=2)
    one.back(f"{module}.backward.0", [g], g @ weight)
    grad = (g.T @ x) * (1.05 if is_debug else 1.0)
    name = "Functional.linear.0.backward"
    one.back(name, [g], g @ weight, grad, within=f"{module}.backward.0")
    one.data[f"{module}.parameters_grad"] = {"weight": [recorded(grad, needs=False)]}
    one.within[f"{module}.parameters_grad"] = f"{module}.backward.0"
    return one


def test_a_gradient_of_a_weight_that_its_module_does_not_put_out_is_named(tmp_path: Path) -> None:
    first = judged(tmp_path, trained)[0]
    assert (first.node, first.strength) == ("Functional.linear.0.backward", "strong")


def cut(is_debug: bool, *, is_derived: bool) -> Program:
    """A sum given what needs no gradient in one run, though it was made needing one."""
    one, x = Program(), values(8, 16)
    made = one.call("Functional.tanh.0.forward", [x], np.tanh(x))
    last = one.call("Tensor.__add__.0.forward", [made, x], made + x)
    one.data["Tensor.__add__.0.forward"]["input_args"][0]["requires_grad"] = not is_debug
    one.call("Functional.sigmoid.0.forward", [last], 1 / (1 + np.exp(-last)))
    g = values(8, 16, seed=3)
    if not is_derived:  # what follows needs no gradient, either
        one.data["Tensor.__add__.0.forward"]["output"][0]["requires_grad"] = not is_debug
    if is_derived:
        one.back("Tensor.__add__.0.backward", [g], g, g)
    given = g * (0.5 if is_debug else 1)
    one.back("Functional.tanh.0.backward", [given], given * (1 - made**2))
    for turn in range(5):
        one.back(f"Functional.relu.{turn}.backward", [given], given * (turn + 1))
    return one


@pytest.mark.parametrize("is_derived", [True, False])
def test_a_branch_is_cut_off_only_where_somebody_derives_it(
    is_derived: bool, tmp_path: Path
) -> None:
    found = judged(tmp_path, lambda is_debug: cut(is_debug, is_derived=is_derived))
    told = [one.node for one in found if one.cause == "gradient"]
    assert told == (["Tensor.__add__.0.backward"] if is_derived else [])
