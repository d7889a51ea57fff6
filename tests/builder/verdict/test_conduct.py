"""What operators do to an error, as docs/design/verdict.md tells it by their kind."""

from __future__ import annotations

import numpy as np
import pytest

from msprobe_builder.verdict.model.conduct import (
    MOVES,
    PLAIN,
    PRODUCTS,
    REACH,
    SUMS,
    Conduct,
    conduct_of,
    with_draws_known,
    with_falling_powers,
)
from msprobe_builder.verdict.model.observations import observe
from msprobe_builder.verdict.model.runs import Runs, runs_of
from tests.builder.small_dumps import number
from tests.builder.verdict.columns import Run, compared, measured

X = np.random.default_rng(1).uniform(0.5, 2.0, size=(4, 6))
GAINS = {PLAIN: 1.0, SUMS: 1.5, PRODUCTS: 1.5, REACH: 3.0, MOVES: 1.5}
KINDS = {
    "Torch.tanh": PLAIN,
    "Torch.mul": PLAIN,
    "Torch.add": SUMS,
    "Torch.sum": SUMS,
    "Torch.cat": SUMS,
    "Torch.matmul": PRODUCTS,
    "Torch.addmm": PRODUCTS,
    "Torch.addbmm": PRODUCTS,
    "Functional.conv2d": PRODUCTS,
    "Torch.exp": REACH,
    "Functional.softmax": REACH,
    "Torch.gather": MOVES,
    "Functional.embedding": MOVES,
    "Torch.where": MOVES,
    "Torch.amax": MOVES,
    "Torch.chunk": MOVES,
}
# By column the operators of which it holds; of the others it does not.
WITH = {
    "breaks": ("Torch.floor", "Torch.sign", "Torch.remainder"),
    "kinks": (
        *("Torch.floor", "Torch.sign", "Torch.relu", "Torch.amax", "Torch.linalg.qr"),
        "Torch.remainder",
    ),
    "turns": ("Torch.linalg.qr",),
    "near_zero": ("Torch.sin", "Torch.log"),
    "normalises": ("Functional.softmax", "Functional.layer_norm", "Functional.normalize"),
    "adds_up": ("Torch.sum", "Torch.mean"),
    "averages": ("Torch.mean", "Functional.avg_pool2d"),
    "multiplies": ("Torch.prod", "Torch.cumprod"),
    "composite": ("Functional.scaled_dot_product_attention", "Torch.addbmm", "Torch.mystery"),
    "received": ("Distributed.all_reduce",),
    "draws": ("Torch.rand",),
    "free": ("Torch.rand", "Torch.empty"),
}
STEEP = {"Torch.rsqrt": 3, "Torch.reciprocal": 2, "Torch.div": 2, "Torch.sqrt": 2, "Torch.log": 2}
UNSIZED = ("Torch.rand", "Torch.empty", "Tensor.view", "Torch.repeat_interleave", "Torch.zeros")
OPERATORS = sorted({*KINDS, *STEEP, *UNSIZED, *(name for names in WITH.values() for name in names)})


def calls_of(*sides: Run) -> tuple[Runs, Conduct]:
    result = compared(*sides)
    runs = runs_of(result)
    return runs, conduct_of(runs.npu, result.texts, runs.npu.calls.is_api)


def all_operators() -> tuple[Runs, Conduct]:
    sides = Run(), Run()
    for place, name in enumerate(OPERATORS):
        for side in sides:
            side.call(f"{name}.0.forward", [measured(X + place)], [measured(X - place)])
    return calls_of(*sides)


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_does_what_its_kind_does(operator: str) -> None:
    runs, does = all_operators()
    node = runs.npu.tree.names.index(f"{operator}.0.forward")
    if operator in KINDS:
        assert does.kind[node] == KINDS[operator]
        assert does.gain[node] == GAINS[KINDS[operator]]
    for column, holds in WITH.items():
        assert bool(getattr(does, column)[node]) is (operator in holds), column
    assert does.steep[node] == STEEP.get(operator, 1)
    assert bool(does.is_known[node]) is (operator != "Torch.mystery")
    assert bool(does.counts[node]) is (operator not in UNSIZED)


def test_a_call_that_is_not_told_is_plain() -> None:
    one = Run()
    one.call("Torch.exp.0.forward", [measured(X)], [measured(np.exp(X))])
    result = compared(one, one)
    runs = runs_of(result)
    does = conduct_of(runs.npu, result.texts, np.zeros(len(runs.npu.tree), dtype=bool))
    node = runs.npu.tree.names.index("Torch.exp.0.forward")
    assert (does.kind[node], does.is_known[node]) == (PLAIN, False)


@pytest.mark.parametrize("exponent", [-2.0, -0.5, 0.5, 1.0, 2.0, 3.0])
def test_powers_fall_where_their_exponent_is_negative(exponent: float) -> None:
    one = Run()
    with np.errstate(all="ignore"):
        made = X**exponent
    given, gradient = measured(X), measured(made / 3)
    one.call("Torch.pow.0.forward", [given, number(exponent)], [measured(made)])
    one.call("Torch.pow.0.backward", [measured(made * 7)], [gradient])
    runs, does = calls_of(one, one)
    does = with_falling_powers(runs, does)
    for name in ("Torch.pow.0.forward", "Torch.pow.0.backward"):
        node = runs.npu.tree.names.index(name)
        kind, steep = (PLAIN, 2) if exponent < 0 else (REACH, 1)
        assert (does.kind[node], does.steep[node]) == (kind, steep)
        assert does.gain[node] == GAINS[kind]


@pytest.mark.parametrize("units", [0.0, 29.0, 31.0])
def test_calls_that_put_out_the_same_drew_the_same(units: float) -> None:
    sides = Run(), Run()
    for side, share in zip(sides, (units * 2.0**-23, 0.0), strict=True):
        made = measured(X * (1 + share))
        side.call(
            "Functional.dropout.0.forward", [measured(X * 9), number(0.5), number(True)], [made]
        )
        side.call("Functional.dropout.0.backward", [measured(X * 5)], [measured(X * 4)])
    result = compared(*sides)
    runs = runs_of(result)
    assert result.comparisons is not None
    does = conduct_of(runs.npu, result.texts, runs.npu.calls.is_api)
    with np.errstate(all="ignore"):
        found = with_draws_known(runs, observe(runs, result.comparisons), does)
    for way in ("forward", "backward"):
        node = runs.npu.tree.names.index(f"Functional.dropout.0.{way}")
        assert (bool(does.draws[node]), bool(does.free[node])) == (True, True)
        assert bool(found.draws[node]) is (units > 30)
        assert bool(found.free[node]) is (units > 30)
