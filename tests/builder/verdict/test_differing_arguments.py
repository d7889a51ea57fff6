"""Which arguments of two calls differ: each line is a call on both sides, and what is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from msprobe_builder.verdict.differences.arguments import Argument
from tests.builder.small_dumps import Record, number
from tests.builder.verdict.columns import Run, compared, evidence_of, measured

X = measured(np.random.default_rng(1).normal(size=(4, 6, 5)))
Y = measured(np.random.default_rng(2).normal(size=(4, 3, 5)))


@dataclass(frozen=True)
class Given:
    """What a call is given: by place, and by keyword."""

    by_place: tuple[Any, ...] = (X,)
    keywords: dict[str, Any] = field(default_factory=dict)


def given(*by_place: Any, **keywords: Any) -> Given:
    return Given(by_place, keywords)


def record(value: Any) -> Any:
    if value is None or isinstance(value, dict):
        return value
    if isinstance(value, list):
        return [record(one) for one in value]
    if isinstance(value, slice):
        return {"type": "slice", "value": [value.start, value.stop, value.step]}
    return number(value)


def dtype(name: str) -> Record:
    return {"type": "torch.dtype", "value": name}


def told(operator: str, debug: Given, reference: Given) -> list[Argument]:
    """What differs between one call of each side, of which the same comes out."""
    sides = Run(), Run()
    for side, own in zip(sides, (debug, reference), strict=True):
        side.call(
            f"{operator}.0.forward",
            [record(one) for one in own.by_place],
            [measured(np.eye(3))],
            **{name: record(one) for name, one in own.keywords.items()},
        )
    return [one for each in evidence_of(compared(*sides)).arguments.values() for one in each]


SAME = [
    ("Functional.leaky_relu", given(X, 0.2), given(X, 0.2)),
    ("Functional.leaky_relu", given(X, 0.2), given(X, 0.2 * (1 + 5e-7))),
    ("Functional.leaky_relu", given(X, 0.01), given(X)),
    ("Functional.leaky_relu", given(X), given(X, negative_slope=0.01)),
    ("Functional.leaky_relu", given(X, negative_slope=0.2), given(X, 0.2)),
    ("Functional.leaky_relu", given(X, 0.01, True), given(X)),
    ("Tensor.masked_fill", given(X, Y, -1e9), given(X, Y, -65504.0)),
    ("Tensor.masked_fill", given(X, Y, -1e4), given(X, Y, -2e4)),
    ("Tensor.masked_fill", given(X, Y, 1e4), given(X, Y, 1e9)),
    ("Torch.clamp", given(X, None, 1e5), given(X, None, 1e9)),
    ("Tensor.__add__", given(X, -1e4), given(X, -1e9)),
    ("Tensor.__mul__", given(X, -1e4), given(X, -65504.0)),
    ("Functional.softmax", given(X, -1), given(X, 2)),
    ("Functional.softmax", given(X, 0), given(X, -3)),
    ("Torch.sum", given(X, -2), given(X, 1)),
    ("Torch.roll", given(X, 2, -1), given(X, 2, 2)),
    ("Torch.roll", given(X, [2, 1], [-1, 0]), given(X, [2, 1], [2, -3])),
    ("Tensor.transpose", given(X, 1, -1), given(X, -2, 2)),
    ("Tensor.__getitem__", given(X, -1), given(X, 3)),
    ("Tensor.select", given(X, 1, -1), given(X, -2, 5)),
    ("Tensor.narrow", given(X, 1, -2, 2), given(X, 1, 4, 2)),
    ("Tensor.to", given(X, "cpu"), given(X, "cuda:0")),
    ("Tensor.to", given(X, "npu:3"), given(X, "cuda:0")),
    ("Torch.mystery", given(X, "<object at 0x7f10>"), given(X, "<object at 0x7f20>")),
    ("Tensor.__getitem__", given(X, slice(0, 4)), given(X, slice(None, 4))),
    ("Tensor.__getitem__", given(X, slice(1, None, 1)), given(X, slice(1, 7))),
    ("Tensor.__getitem__", given(X, slice(1, 4)), given(X, slice(1, None))),
    ("Functional.embedding", given(X, Y, 3), given(X, Y, 4)),
    ("Functional.embedding", given(X, Y, padding_idx=3), given(X, Y, padding_idx=4)),
    ("Tensor.view", given(X, 4, 30), given(X, 8, 15)),
    ("Torch.cat", given([X, Y], 1), given([X, Y], 1)),
    ("Functional.cross_entropy", given(X, Y), given(X, Y, ignore_index=-100)),
    ("Torch.clamp", given(X, None, 1.0), given(X, max=1.0)),
    ("Torch.add", given(X, Y, alpha=1), given(X, Y)),
    # Of two spellings that each side alone has, nobody knows that they differ.
    ("Functional.hardtanh", given(X, min_val=-2.0), given(X, max_val=2.0)),
]
OTHER = [
    ("Functional.leaky_relu", given(X, 0.2), given(X, 0.3), Argument("1", "0.2", "0.3")),
    (
        *("Functional.leaky_relu", given(X, 0.2), given(X, 0.2 * (1 + 5e-6))),
        Argument("1", "0.2", "0.200001", is_slight=True),
    ),
    (
        *("Functional.leaky_relu", given(X, 0.2), given(X, 0.2 * (1 + 9e-6))),
        Argument("1", "0.2", f"{0.2 * (1 + 9e-6)}"),
    ),
    (
        *("Functional.leaky_relu", given(X, 0.2), given(X)),
        Argument("negative_slope", "0.2", "0.01"),
    ),
    (
        *("Functional.leaky_relu", given(X), given(X, negative_slope=0.3)),
        Argument("negative_slope", "0.01", "0.3"),
    ),
    (
        *("Functional.leaky_relu", given(X), given(X, negative_slope=0.01 * (1 + 5e-6))),
        Argument("negative_slope", "0.01", f"{0.01 * (1 + 5e-6)}", is_slight=True),
    ),
    (
        *("Tensor.masked_fill", given(X, Y, -1e9), given(X, Y, 1e9)),
        Argument("2", "-1000000000.0", "1000000000.0"),
    ),
    (
        *("Tensor.masked_fill", given(X, Y, -1e9), given(X, Y, -9e3)),
        Argument("2", "-1000000000.0", "-9000.0"),
    ),
    # Bases of rotary positions, factors and ends, which stand for themselves.
    ("Tensor.__mul__", given(X, 5e4), given(X, 1e4), Argument("1", "50000.0", "10000.0")),
    ("Tensor.__truediv__", given(X, 2e4), given(X, 1e4), Argument("1", "20000.0", "10000.0")),
    ("Tensor.remainder", given(X, 65536.0), given(X, 3e4), Argument("1", "65536.0", "30000.0")),
    ("Tensor.__rpow__", given(X, 5e5), given(X, 1e4), Argument("1", "500000.0", "10000.0")),
    ("Torch.pow", given(1e6, X), given(5e5, X), Argument("0", "1000000.0", "500000.0")),
    ("Functional.softmax", given(X, -1), given(X, 1), Argument("1", "-1", "1", is_count=True)),
    # Numbers that are the same modulo the number of dimensions, and are no dimensions.
    ("Torch.roll", given(X, -1, 1), given(X, 2, 1), Argument("1", "-1", "2", is_count=True)),
    (
        *("Torch.roll", given(X, [-2, 1], [0, 1]), given(X, [1, 1], [0, 1])),
        Argument("1.0", "-2", "1", is_count=True),
    ),
    (
        *("Torch.roll", given(X, shifts=-1, dims=1), given(X, shifts=2, dims=1)),
        Argument("shifts", "-1", "2", is_count=True),
    ),
    ("Torch.rot90", given(X, -1), given(X, 2), Argument("1", "-1", "2", is_count=True)),
    ("Torch.diagonal", given(X, -1), given(X, 2), Argument("1", "-1", "2", is_count=True)),
    (
        *("Functional.group_norm", given(X, 3), given(X, 6)),
        Argument("1", "3", "6", is_count=True),
    ),
    ("Tensor.chunk", given(X, 3, 1), given(X, 6, 1), Argument("1", "3", "6", is_count=True)),
    ("Tensor.__getitem__", given(X, -1), given(X, 2), Argument("1", "-1", "2", is_count=True)),
    (
        *("Tensor.select", given(X, 1, -1), given(X, 1, 2)),
        Argument("2", "-1", "2", is_count=True),
    ),
    (
        *("Tensor.narrow", given(X, 1, -3, 2), given(X, 1, 0, 2)),
        Argument("2", "-3", "0", is_count=True),
    ),
    (
        *("Torch.topk", given(X, 3), given(X, 4)),
        Argument("1", "3", "4", is_count=True),
    ),
    ("Torch.topk", given(X, 3, -1, True), given(X, 3, -1, False), Argument("3", "True", "False")),
    ("Torch.topk", given(X, 3), given(X, 3, -1, False), Argument("largest", "True", "False")),
    (
        *("Functional.gelu", given(X, approximate="tanh"), given(X)),
        Argument("approximate", "tanh", "none"),
    ),
    (
        *("Functional.gelu", given(X, approximate="tanh"), given(X, approximate="none")),
        Argument("approximate", "tanh", "none"),
    ),
    (
        *("Torch.mystery", given(X, dtype("torch.float16")), given(X, dtype("torch.bfloat16"))),
        Argument("1", "torch.float16", "torch.bfloat16"),
    ),
    ("Torch.clamp", given(X, 0.0), given(X, 0.0, 1.0), Argument("max", "None", "1.0")),
    ("Torch.clamp", given(X, min=0.5), given(X, max=0.5), None),
    ("Torch.add", given(X, Y, alpha=2), given(X, Y), Argument("alpha", "2", "1")),
    (
        *("Torch.cat", given([X, Y], 1), given([Y, X], 1)),
        Argument("tensors", "[4, 6, 5], [4, 3, 5]", "[4, 3, 5], [4, 6, 5]", is_order=True),
    ),
    (
        *("Torch.sum", given(X, [0, 1]), given(X, [0, 1, 2])),
        Argument("1", "0, 1", "0, 1, 2"),
    ),
    (
        *("Tensor.__getitem__", given(X, slice(1, 4)), given(X, slice(2, 4))),
        Argument("1", "[1, 4, None]", "[2, 4, None]", is_count=True),
    ),
    (
        *("Tensor.__getitem__", given(X, slice(1, 4)), given(X, slice(1, 3))),
        Argument("1", "[1, 4, None]", "[1, 3, None]", is_count=True),
    ),
    (
        *("Tensor.__getitem__", given(X, slice(1, 4, 2)), given(X, slice(1, 4))),
        Argument("1", "[1, 4, 2]", "[1, 4, None]", is_count=True),
    ),
]


@pytest.mark.parametrize("place", range(len(SAME)))
def test_two_spellings_of_one_argument_are_no_difference(place: int) -> None:
    operator, debug, reference = SAME[place]
    assert told(operator, debug, reference) == []
    assert told(operator, reference, debug) == []


@pytest.mark.parametrize("place", range(len(OTHER)))
def test_another_argument_is_told_with_both_values(place: int) -> None:
    operator, debug, reference, right = OTHER[place]
    here, there = told(operator, debug, reference), told(operator, reference, debug)
    if right is None:
        assert here == there == []
        return
    assert [(one.name, one.is_count, one.is_order, one.is_slight) for one in (*here, *there)] == [
        (right.name, right.is_count, right.is_order, right.is_slight)
    ] * 2
    for one, values in ((here[0], (right.npu, right.bench)), (there[0], (right.bench, right.npu))):
        shown = [value.replace("(", "[").replace(")", "]") for value in (one.npu, one.bench)]
        assert [_rounded(value) for value in shown] == [_rounded(value) for value in values]


def _rounded(text: str) -> str:
    try:
        return f"{float(text):.9g}"
    except ValueError:
        return text


@pytest.mark.parametrize("operator", ["Torch.mul", "Torch.mystery", "Functional.leaky_relu"])
def test_numbers_are_told_in_the_order_of_the_call(operator: str) -> None:
    found = told(operator, given(X, 2.0, 3.0, 4.0), given(X, 2.5, 3.0, 4.5))
    assert [(one.npu, one.bench) for one in found] == [("2.0", "2.5"), ("4.0", "4.5")]


def test_calls_of_other_operators_have_other_arguments() -> None:
    sides = Run(), Run()
    made = [measured(np.eye(3))]
    for side, value, name in zip(sides, (0.2, 0.3), ("Torch.mul", "Torch.div"), strict=True):
        side.call(f"{name}.0.forward", [X, number(value)], made)
    assert evidence_of(compared(*sides)).arguments == {}
