"""Flattening records into parameters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameters import Parameters, Section

_TENSOR = {
    "type": "torch.Tensor",
    "dtype": "torch.float32",
    "shape": [2, 4],
    "Max": 1.0,
    "Min": math.nan,
    "Mean": None,
    "Norm": -math.inf,
    "requires_grad": True,
}


def _flatten(record: dict[str, Any]) -> tuple[Parameters, list[str]]:
    parameters = Parameters(Texts())
    parameters.add_record(0, record)
    return parameters, [parameters.texts.values[name] for name in parameters.name_id]


def test_nested_arguments_keep_their_index() -> None:
    record = {
        "input_args": [
            [_TENSOR, _TENSOR],
            {"a": _TENSOR, "b": []},
            None,
            [],
            {"type": "int", "value": 3},
        ]
    }
    parameters, names = _flatten(record)
    assert names == ["input.0.0", "input.0.1", "input.1.a", "input.2", "input.4"]
    assert list(parameters.is_tensor) == [1, 1, 1, 0, 0]
    assert parameters.texts.values[parameters.value_id[4]] == "3"


def test_sections_come_from_the_section_not_from_the_name() -> None:
    record = {
        "input_args": [_TENSOR],
        "output": [_TENSOR],
        "parameters": {"output.dense.weight": _TENSOR},
    }
    parameters, names = _flatten(record)
    assert names == ["input.0", "output.0", "parameters.output.dense.weight"]
    assert list(parameters.section) == [Section.INPUT, Section.OUTPUT, Section.PARAMETERS]


def test_missing_and_nan_are_told_apart() -> None:
    parameters, _ = _flatten({"output": [_TENSOR]})
    largest, smallest, mean, norm = parameters.statistic_columns()[:, 0]
    assert largest == 1.0
    assert math.isnan(smallest)
    assert math.isnan(mean)
    assert norm == -math.inf
    assert parameters.missing[0] == 0b0100  # only the mean was not recorded
    assert parameters.numel[0] == 8


def test_booleans_and_huge_integers_are_numbers() -> None:
    tensor = {**_TENSOR, "Max": True, "Min": False, "Mean": 10**400, "Norm": "seven"}
    parameters, _ = _flatten({"output": [tensor]})
    assert parameters.statistic_columns()[:3, 0].tolist() == [1.0, 0.0, math.inf]
    assert parameters.missing[0] == 0b1000


def test_values_are_kept_as_they_are() -> None:
    record = {
        "input_kwargs": {
            "device": {"type": "torch.device", "value": "cpu:None"},
            "format": {"type": "torch.memory_format", "format": "contiguous_format"},
            "size": {"type": "torch.Size", "value": [2, 3]},
            "group": {"type": "torch.ProcessGroup", "group_ranks": [0, 1], "group_id": "77849d8c"},
            "rest": {"type": "slice", "value": [0, None, 2]},
        }
    }
    parameters, _ = _flatten(record)
    values = [parameters.texts.values[value] for value in parameters.value_id]
    assert values == ["cpu:None", "contiguous_format", "[2, 3]", "[0, 1]", "[0, None, 2]"]


def test_peer_operations_hold_a_tensor_and_its_peer() -> None:
    operation = {
        "class_type": "torch.distributed.P2POp",
        "tensor": _TENSOR,
        "op": "isend",
        "peer": 1,
        "tag": 0,
        "group_id": "77849d8c",
    }
    _, names = _flatten({"input_args": [[operation]]})
    assert names == [
        "input.0.0.tensor",
        "input.0.0.op",
        "input.0.0.peer",
        "input.0.0.tag",
        "input.0.0.group_id",
    ]


def test_gradients_come_in_lists_of_one() -> None:
    parameters = Parameters(Texts())
    parameters.add_gradients(0, {"weight": [_TENSOR], "bias": [_TENSOR]})
    names = [parameters.texts.values[name] for name in parameters.name_id]
    assert names == ["parameters_grad.weight", "parameters_grad.bias"]
    assert set(parameters.section) == {Section.PARAMETERS_GRAD}


def test_the_short_way_for_usual_tensors_reads_what_the_long_way_reads() -> None:
    """Values that are equal in Python but not the same stay apart: 1, 1.0 and True."""
    changes: list[dict[str, Any]] = [
        {},
        *({"requires_grad": value} for value in (False, 1, None, "True", True)),
        *({"shape": value} for value in ([2, True], [2, 1], [2, 1.0], [], None, 3, "[2, 4]")),
        *({"dtype": value} for value in (None, 5, "torch.float32", "torch.float16")),
        *({"type": value} for value in (None, 7, "torch.nn.parameter.Parameter")),
        *({key: value} for key in ("Max", "Norm") for value in (1, True, None, "1.0", math.nan)),
    ]
    records = [{**_TENSOR, "Mean": 0.5, **change} for change in changes * 2]
    short, long = Parameters(Texts()), Parameters(Texts())
    for number, record in enumerate(records):
        short.add_record(number, {"output": [record]})
        # One key more, which nobody reads, is not the usual form.
        long.add_record(number, {"output": [{**record, "unknown": 0}]})
    columns = ("record", "section", "name_id", "missing", "is_tensor", "dtype_id", "numel")
    rows = [place for place, record in enumerate(records) if isinstance(record["type"], str)]
    assert len(rows) > 40
    for column in (*columns, "type_id", "shape_id", "requires_grad"):
        one, other = (_of_tensors(side, column) for side in (short, long))
        np.testing.assert_array_equal(one, other, err_msg=column)
    np.testing.assert_array_equal(
        short.statistic_columns()[:, short.is_tensor], long.statistic_columns()[:, long.is_tensor]
    )


def _of_tensors(parameters: Parameters, column: str) -> list[object]:
    """A column, text ids as texts."""
    values = getattr(parameters, column)[parameters.is_tensor].tolist()
    if column in ("record", "section", "missing", "is_tensor", "requires_grad", "numel"):
        return list(values)
    return [None if value < 0 else parameters.texts.values[value] for value in values]
