"""Rows of statistics that are read back together, here with the host as the device."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
import torch

from msprobe_collector.record.device_rows import DeviceRows, Row
from msprobe_collector.unseen import unseen

FIELDS = ("Max", "Min", "Mean", "Norm")
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.float8_e5m2)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def fetched(rows: DeviceRows, measured: list[Row]) -> list[list[Any]]:
    items: list[tuple[dict[str, Any], Row]] = [({}, row) for row in measured]
    with unseen():
        rows.fetch(items, FIELDS)
    return [[item[key] for key in FIELDS] for item, _ in items]


def kind_of(tensor: torch.Tensor) -> str:
    return "float" if tensor.is_floating_point() else "int"


def truth(tensor: torch.Tensor) -> list[float]:
    values = tensor.detach().double().numpy()
    return [values.max(), values.min(), values.mean(), math.sqrt((values**2).sum())]


def test_rows_of_many_types_and_more_than_a_block() -> None:
    torch.manual_seed(1)
    tensors = [(torch.randn(3, n % 7 + 1) * 3).to(FLOATS[n % 5]) for n in range(700)]
    tensors += [torch.randint(0, 9, (n % 5 + 1,)).to(INTEGERS[n % 5]) for n in range(700)]
    tensors += [torch.randn(4, 6).t(), torch.randn(()), torch.randn(5, requires_grad=True)]
    rows = DeviceRows()
    with unseen():
        measured = [rows.measure(one, kind_of(one)) for one in tensors]
    for found, tensor in zip(fetched(rows, measured), tensors, strict=True):
        # float32 sums of at most 24 numbers below 20
        assert found == pytest.approx(truth(tensor), rel=1e-6, abs=1e-5), tensor


def test_integers_are_exact() -> None:
    tensor = torch.tensor([2**62 + 1, -3, 2**40])
    rows = DeviceRows()
    with unseen():
        [[high, low, mean, _]] = fetched(rows, [rows.measure(tensor, "int")])
    assert (high, low) == (2**62 + 1, -3)
    assert mean == np.array([2**62 + 1, -3, 2**40], dtype=np.float64).sum() / 3


def test_truth_values_and_complex_numbers() -> None:
    rows = DeviceRows()
    with unseen():
        both = rows.measure(torch.tensor([True, False]), "bool")
        size = rows.measure(torch.tensor([3 + 4j, 0j]).abs(), "complex")
    assert fetched(rows, [both, size]) == [[True, False, None, None], [5.0, 0.0, 2.5, None]]


@pytest.mark.parametrize(
    ("values", "mean", "norm"),
    [
        ([1e30, -1e30], 0.0, None),  # the squares leave the range of float32
        ([3e38, 3e38], None, None),  # and so does the sum
        ([1e-30, 0.0], 5e-31, None),  # nothing is left of the squares
        ([0.0, 0.0], 0.0, 0.0),
        ([math.inf, 1.0], math.inf, math.inf),
    ],
)
def test_what_leaves_the_range_is_not_told(
    values: list[float], mean: float | None, norm: float | None
) -> None:
    rows = DeviceRows()
    with unseen():
        [found] = fetched(rows, [rows.measure(torch.tensor(values), "float")])
    assert found[2] == (mean if mean is None else pytest.approx(mean))
    assert found[3] == norm


@pytest.mark.parametrize(
    ("first", "then"),
    [(torch.inference_mode, torch.no_grad), (torch.no_grad, torch.inference_mode)],
)
def test_a_block_serves_inference_and_training(
    first: Callable[[], AbstractContextManager[None]],
    then: Callable[[], AbstractContextManager[None]],
) -> None:
    rows = DeviceRows()
    measured = []
    for mode in (first, then):
        with mode():
            tensor = torch.ones(4) * 2
            with unseen():
                measured.append(rows.measure(tensor, "float"))
    assert fetched(rows, measured) == [[2.0, 2.0, 2.0, 4.0]] * 2


def test_what_is_written_later_does_not_show() -> None:
    rows = DeviceRows()
    tensor = torch.ones(3)
    with unseen():
        row = rows.measure(tensor, "float")
    tensor.zero_()
    assert fetched(rows, [row]) == [[1.0, 1.0, 1.0, pytest.approx(math.sqrt(3))]]
