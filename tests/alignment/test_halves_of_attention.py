"""Attention as two products, written down by hand."""

from __future__ import annotations

from typing import cast

import numpy as np

from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.align.pairing.halves_of_attention import of_halves, split_attention

ATTENTION, OTHER = 7, 1


class Side:
    """Nothing but operators."""

    def __init__(self, *operators: int) -> None:
        self.operator = np.array(operators, dtype=np.int64)


def numbers(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


KERNEL = cast("Traits", Side(OTHER, OTHER, OTHER, ATTENTION, OTHER))
WRITTEN = cast("Traits", Side(OTHER, OTHER, OTHER, OTHER, OTHER, OTHER, OTHER))
KINDS = numbers(ATTENTION)
# Query, key and value are 1, 0 and 2.
HALVES = split_attention(
    KERNEL,
    np.arange(5),
    np.array([[-1, -1, -1, 1, 3], [-1, -1, -1, 0, -1]]),
    numbers(-1, -1, -1, 2, -1),
    KINDS,
)
NONE = split_attention(WRITTEN, np.arange(7), np.full((2, 7), -1), np.full(7, -1), KINDS)


def test_each_half_takes_in_what_it_multiplies() -> None:
    assert HALVES.of.tolist() == [0, 1, 2, 3, 3, 4]
    assert HALVES.is_first.tolist() == [False, False, False, True, False, False]
    first, second = HALVES.makers.tolist()
    assert (first[3], second[3]) == (1, 0)  # query and key
    assert (first[4], second[4]) == (3, 2)  # what comes of them, and the value
    assert (first[5], second[5]) == (4, -1)  # who takes it in


def test_without_attention_nothing_is_split() -> None:
    assert NONE.of.tolist() == [*range(7)]
    assert not NONE.is_first.any()


def test_the_first_half_is_a_product_of_two_tensors_or_another_first_half() -> None:
    local = np.arange(35.0).reshape(5, 7)
    two = np.array([False, False, False, True, False])
    other_two = np.array([False, False, False, True, False, True, False])
    found = of_halves(local, HALVES, NONE, two, other_two)
    assert found[3].tolist() == [-30.0, -30.0, -30.0, 1.0, -30.0, 1.0, -30.0]
    rest = [0, 1, 2, 4, 5]
    assert (found[rest] == local[[0, 1, 2, 3, 4]]).all()
    turned = of_halves(local.T, NONE, HALVES, other_two, two)
    assert (turned == found.T).all()


def test_halves_of_two_kernels_belong_to_each_other() -> None:
    local = np.full((5, 5), 2.0)
    two = np.array([False, False, False, True, False])
    found = of_halves(local, HALVES, HALVES, two, two)
    assert (found[3, 3], found[4, 4]) == (2.0, 2.0)
    assert (found[3, 4], found[4, 3]) == (-30.0, -30.0)
