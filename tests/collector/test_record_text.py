"""Records are written as Python's own ``json`` writes them, however often they are shown."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from msprobe_collector.write.records import Leaf, record_text

LEAF = {"type": "torch.Tensor", "shape": [2, 0], "Max": 0.1, "Min": -math.inf, "Mean": math.nan}
VALUES: list[Any] = [
    None,
    True,
    -0.0,
    2**70,
    'ü "\\ \n \ud800',
    [],
    {},
    (LEAF, None),
    {"output": [LEAF, [LEAF, {"a b": 1}], None, False], 'k"ü': {}},
]


def with_leaves(value: Any) -> Any:
    """``value`` with the records of tensors as the recording makes them, one for all."""
    if value == LEAF:
        return ONE_LEAF
    if isinstance(value, list | tuple):
        return type(value)(with_leaves(part) for part in value)
    if isinstance(value, dict):
        return {key: with_leaves(part) for key, part in value.items()}
    return value


ONE_LEAF = Leaf(LEAF)
NUMBERS: list[Any] = [
    0.1,
    -0.0,
    5e-324,
    1.7e308,
    3.0,
    2**60,
    math.inf,
    -math.inf,
    math.nan,
    None,
    True,
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_records_are_written_as_json_writes_them(value: Any) -> None:
    for _again in range(2):
        assert record_text(with_leaves(value)) == json.dumps(value)


@pytest.mark.parametrize("norm", [2.5, math.inf, math.nan, None])
@pytest.mark.parametrize("high", NUMBERS, ids=repr)
def test_the_record_of_a_tensor_is_written_as_json_writes_it(high: Any, norm: Any) -> None:
    for shape, takes_gradient in (([2, 3], True), ([], False), ([2, 3], False)):
        item = {"type": "torch.Tensor", "dtype": 'a "kind"', "shape": shape, "Max": high}
        item |= {"Min": -high if high else high, "Mean": high, "Norm": norm}
        item["requires_grad"] = takes_gradient
        assert record_text([Leaf(item)]) == json.dumps([item])
        saved = {**item, "data_name": "x.pt"}
        assert record_text([Leaf(saved)]) == json.dumps([saved])
