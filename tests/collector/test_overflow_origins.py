"""Where numbers first are no longer finite, told from the records of calls."""

from __future__ import annotations

import math
from typing import Any

import pytest

from msprobe_collector.record.overflow import (
    Overflow,
    is_finite,
    is_origin,
    is_origin_backward,
)

ODD = (math.nan, math.inf, -math.inf)


def tensor(**statistics: object) -> dict[str, Any]:
    return {"type": "torch.Tensor", "dtype": "torch.float32", "Max": 1.0, "Min": 0.0, "Mean": 0.5,
            "Norm": 1.0, **statistics}  # fmt: skip


@pytest.mark.parametrize("key", ["Max", "Min", "Mean"])
@pytest.mark.parametrize("value", ODD)
def test_any_statistic_tells(key: str, value: float) -> None:
    odd = tensor(**{key: value})
    for record in (odd, [odd], {"key": [None, {"inner": odd}]}, [tensor(), [odd]]):
        assert not is_finite(record)
    assert not is_finite({"output": [odd]})


@pytest.mark.parametrize(
    "record", [None, [], {}, tensor(), [tensor(), {"type": "int", "value": 3}]]
)
def test_what_holds_no_odd_number_is_finite(record: object) -> None:
    assert is_finite(record)
    assert is_finite(tensor(Max=None, Min=None, Mean=None))
    assert is_finite(tensor(Max=True, Min=False, Mean=None))


@pytest.mark.parametrize(
    ("origin", "given", "made"),
    [
        (is_origin, ("input_args", "input_kwargs", "parameters"), ("output",)),
        (is_origin_backward, ("input", "output_gradients"), ("output", "input_gradients")),
    ],
)
def test_an_origin_makes_odd_numbers_of_finite_ones(
    origin: Any, given: tuple[str, ...], made: tuple[str, ...]
) -> None:
    healthy = {key: [tensor()] for key in (*given, *made)}
    assert not origin(healthy)
    for key in made:
        odd = {**healthy, key: [tensor(Max=math.inf)]}
        assert origin(odd)
        for before in given:
            assert not origin({**odd, before: [tensor(Min=math.nan)]})


@pytest.mark.parametrize("limit", [1, 3])
def test_the_limit_is_reached_with_its_number(limit: int) -> None:
    overflow = Overflow(limit)
    assert [overflow.count() for _ in range(limit)] == [False] * (limit - 1) + [True]
