"""Records of values that are no tensors, and how many of them are looked at."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import zlib
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from msprobe_collector.record.nested import plain_value
from msprobe_collector.record.parts import MOST_PARTS, Opener, by_text
from msprobe_collector.record.plain_values import describe_plain, group_id


class Number(IntEnum):
    """Of which the value is written down."""

    FOUR = 4


@pytest.mark.parametrize(
    ("value", "kind", "written"),
    [
        (True, "bool", True),
        (3, "int", 3),
        (0.5, "float", 0.5),
        ("text", "str", "text"),
        (Number.FOUR, "Number", 4),
        (np.float64(0.25), "float64", 0.25),
        (slice(1, 5, 2), "slice", [1, 5, 2]),
        (slice(None, 3), "slice", [None, 3, None]),
        (slice("a", None, None), "slice", [None, None, None]),
        (..., "ellipsis", "..."),
    ],
)
def test_what_python_knows(value: object, kind: str, written: object) -> None:
    assert plain_value(value) == {"type": kind, "value": written}
    assert plain_value([value]) is None


@pytest.mark.parametrize(
    ("value", "record"),
    [
        (torch.float16, {"type": "torch.dtype", "value": "torch.float16"}),
        (torch.device("cpu"), {"type": "torch.device", "value": "cpu:None"}),
        (torch.device("cuda", 1), {"type": "torch.device", "value": "cuda:1"}),
        (
            torch.channels_last,
            {"type": "torch.memory_format", "format": "channels_last"},
        ),
        (np.int32(7), {"type": "numpy.int32", "value": 7}),
        (object(), None),
    ],
)
def test_what_torch_and_numpy_know(value: object, record: dict[str, Any] | None) -> None:
    assert describe_plain(value) == record


def test_an_array_is_measured_as_a_tensor() -> None:
    found = describe_plain(np.array([[3.0, -4.0], [0.0, 0.0]], dtype=np.float32))
    assert found is not None
    assert (found["type"], found["dtype"], found["shape"]) == ("numpy.ndarray", "float32", [2, 2])
    numbers = [found[key] for key in ("Max", "Min", "Mean", "Norm")]
    assert numbers == pytest.approx([3.0, -4.0, -0.25, 5.0])
    words = describe_plain(np.array(["a", "b"]))
    assert words is not None
    assert [words[key] for key in ("Max", "Min", "Mean", "Norm")] == [None] * 4


def test_a_group_is_called_by_its_ranks() -> None:
    assert group_id([0, 3]) == f"{zlib.crc32(b'[0, 3]'):08x}"
    assert group_id([0, 3]) != group_id([3, 0])


class Name(str):
    """A key whose own words are not asked for."""

    def __str__(self) -> str:
        raise AssertionError


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        (("a", 1, None, 0.5), ["a", "1", "None", "0.5"]),
        ((1, "1", True, "1'"), ["1", "1'", "True", "1''"]),
        (((1, "a"), b"x"), ["(1, 'a')", "b'x'"]),
        ((Name("own"), Number.FOUR), ["own", "Number.FOUR"]),
        (("a", object(), object), ["a", "object1", "type2"]),
    ],
)
def test_keys_are_told_apart_by_their_texts(keys: tuple[object, ...], shown: list[str]) -> None:
    assert list(by_text((key, None) for key in keys)) == shown
    assert list(by_text((key, place) for place, key in enumerate(keys)).values()) == [
        *range(len(keys))
    ]


OPENER = Opener(torch.Tensor, nn.Module)


@pytest.mark.parametrize(("count", "is_shown"), [(MOST_PARTS, True), (MOST_PARTS + 1, False)])
def test_more_numbers_than_arguments_have_are_data(count: int, is_shown: bool) -> None:
    values = [1.0] * count
    for parts in (values, tuple(values), dict(enumerate(values))):
        assert (OPENER.parts(parts) is not None) == (is_shown or isinstance(parts, dict))
    tensors = [torch.ones(1)] * count
    assert OPENER.parts(tensors) is tensors  # as many as there are


@pytest.mark.parametrize(("count", "is_shown"), [(MOST_PARTS - 3, True), (MOST_PARTS - 2, False)])
def test_an_object_of_too_many_parts_is_not_shown(count: int, is_shown: bool) -> None:
    """Three parts of its own, in lists of as many as are allowed together."""
    half = count // 2
    whole = SimpleNamespace(x=torch.ones(1), a=[0] * half, b=[0] * (count - half))
    parts = OPENER.parts(whole)
    assert (parts is not None) == is_shown
    if isinstance(parts, dict):
        assert list(parts) == ["x"]
    found: list[torch.Tensor] = []
    OPENER.collect(whole, found, 9)
    assert len(found) == is_shown


def test_a_tensor_of_two_names_is_shown_once() -> None:
    tensor, other = torch.ones(1), torch.ones(1)
    parts = OPENER.parts(SimpleNamespace(first=tensor, second=[tensor, other], third=tensor))
    assert parts == {"first": tensor, "second": [None, other]}
