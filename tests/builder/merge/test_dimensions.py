"""Where shards are cut after a call, against numpy working on real slices."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe_builder.dump.names import Direction
from msprobe_builder.merge.flow.dimensions import (
    Cut,
    alike,
    broadcast_from,
    factor_cuts,
    output_cut,
    reshaped,
    shrunk,
    split_like,
    summed_cut,
    takes_batch_first,
)
from msprobe_builder.operators.table import named, row_of

FORWARD = Direction.FORWARD


def whole_shape(shape: tuple[int, ...], cut: Cut, parts: int) -> tuple[int, ...]:
    return tuple(
        size * parts if place == cut.dimension else size for place, size in enumerate(shape)
    )


@given(st.permutations([0, 1, 2, 3]), st.integers(0, 3))
def test_permute(order: list[int], dimension: int) -> None:
    part = np.zeros((2, 3, 5, 7))
    cut = output_cut(
        named("permute"),
        FORWARD,
        [(Cut(dimension), list(part.shape))],
        list(part.transpose(order).shape),
        order,
    )
    assert cut is not None
    whole = np.zeros(whole_shape(part.shape, Cut(dimension), 2)).transpose(order)
    assert whole_shape(part.transpose(order).shape, cut, 2) == whole.shape


@given(st.integers(0, 2), st.integers(-3, 2), st.integers(-3, 2))
def test_transpose(dimension: int, one: int, other: int) -> None:
    part = np.zeros((2, 3, 5))
    shape = part.swapaxes(one, other).shape
    cut = output_cut(
        named("transpose"), FORWARD, [(Cut(dimension), [2, 3, 5])], list(shape), [one, other]
    )
    assert cut is not None
    whole = np.zeros(whole_shape((2, 3, 5), Cut(dimension), 2)).swapaxes(one, other)
    assert whole_shape(shape, cut, 2) == whole.shape


@pytest.mark.parametrize(
    ("source", "dimension", "shape"),
    [
        ([8, 2, 2, 8], 2, [8, 4, 8]),  # heads into the batch
        ([8, 2, 32], 2, [8, 2, 4, 8]),  # hidden into heads
        ([8, 2, 4, 8], 2, [8, 2, 32]),  # and back
        ([6, 4], 0, [3, 2, 4]),
        ([6, 4], 0, [24]),
    ],
)
def test_reshape(source: list[int], dimension: int, shape: list[int]) -> None:
    """What a reshape of the whole holds of each slice is what the slice itself becomes."""
    cut = reshaped(Cut(dimension), source, shape)
    assert cut is not None
    parts = [np.arange(prod(source)).reshape(source) + prod(source) * part for part in range(2)]
    whole = np.concatenate(parts, axis=dimension)
    grown = list(shape)
    grown[cut.dimension] *= 2
    result = whole.reshape(grown)
    outer = cut.outer
    split = result.reshape([*grown[: cut.dimension], outer, 2, -1, *grown[cut.dimension + 1 :]])
    for number, part in enumerate(parts):
        own = split.take(number, axis=cut.dimension + 1).reshape(shape)
        np.testing.assert_array_equal(own, part.reshape(shape))


@pytest.mark.parametrize(
    ("cuts", "shards", "expected"),
    [
        ((Cut(2), Cut(1)), (True, True), (Cut(2), Cut(0))),  # a square weight and its transpose
        ((None, Cut(0)), (False, True), (None, Cut(1))),  # the first factor is whole
        ((Cut(0), None), (True, False), (None, None)),
        ((Cut(0), Cut(1)), (True, True), (Cut(0), Cut(1))),
    ],
)
def test_factors_of_a_product_fit_together(
    cuts: tuple[Cut | None, Cut | None],
    shards: tuple[bool, bool],
    expected: tuple[Cut | None, Cut | None],
) -> None:
    assert factor_cuts(cuts, shards, (3, 2)) == expected


def test_a_product_keeps_rows_and_columns() -> None:
    by_column = output_cut(named("matmul"), FORWARD, [(Cut(1), [4, 6])], [2, 3, 6], [])
    by_row = output_cut(named("matmul"), FORWARD, [(Cut(0), [4, 6])], [4, 5], [])
    assert (by_column, by_row) == (Cut(2), Cut(0))


def test_shrinking_over_the_cut() -> None:
    assert shrunk(Cut(2), [4, 5, 6], [4, 5], []) == (True, None)
    assert shrunk(Cut(2), [4, 5, 6], [5, 6], []) == (False, Cut(1))
    assert shrunk(Cut(1), [4, 5, 5], [4, 5], []) == (False, None)  # either dimension
    assert shrunk(Cut(1), [4, 5, 5], [4, 5], [-1]) == (False, Cut(1))
    assert shrunk(Cut(1), [4, 5, 6], [4, 1, 6], [1]) == (True, None)
    assert shrunk(Cut(0), [4, 5, 6], [4, 5, 1], [2]) == (False, Cut(0))


def test_splitting_behind_the_cut() -> None:
    assert split_like(Cut(2), [8, 2, 32], [8, 2, 4, 8]) == Cut(2)
    assert split_like(Cut(2), [8, 2, 32], [2, 4, 8, 8]) is None
    assert split_like(None, [8], [8]) is None


def test_a_tensor_of_unknown_origin_is_never_guessed_when_two_answers_fit() -> None:
    assert alike([4, 4], [(Cut(0), [4, 4]), (Cut(1), [4, 4])]) is None
    assert alike([4, 4], [(Cut(0), [4, 4]), (Cut(0), [4, 4])]) == Cut(0)
    assert alike([4, 9], [(Cut(0), [4, 4])]) == Cut(0)
    assert alike([9, 4], [(Cut(0), [4, 4])]) is None


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_a_single_head_per_rank_joins_the_batch_where_heads_are_multiplied(batch: int) -> None:
    """Of [sequence, batch, heads, …] with one head a rank the heads can go either way."""
    source, joined = [8, batch, 1, 4], [8, batch, 4]
    assert reshaped(Cut(2), source, joined, joins_batch=True) == Cut(1, batch)
    assert reshaped(Cut(2), source, joined) == Cut(2)
    scores = [batch, 8, 8]
    if batch > 1:
        assert reshaped(Cut(0, batch), scores, [batch, 1, 8, 8]) == Cut(1)


def test_a_linear_function_sums_over_the_last_dimension_of_its_weight() -> None:
    last = Cut(2)
    assert factor_cuts([last, None], [True, True], [3, 2], is_linear=True) == (last, Cut(1))
    assert factor_cuts([last, None], [True, True], [3, 2]) == (last, Cut(0))
    assert factor_cuts([None, None], [False, True], [3, 2], is_linear=True) == (None, Cut(0))


def test_gradients_of_broadcast_tensors() -> None:
    assert broadcast_from(Cut(0), [4, 2, 6], [6]) == (True, None)  # summed over the cut
    assert broadcast_from(Cut(2), [4, 2, 6], [6]) == (False, Cut(0))
    assert broadcast_from(Cut(1), [4, 2, 6], [1, 2, 6]) == (False, Cut(1))
    assert broadcast_from(Cut(0), [4, 2, 6], [1, 2, 6]) == (True, None)
    assert broadcast_from(Cut(0), [4, 2, 6], [4, 2, 6]) is None
    assert broadcast_from(Cut(0), [4, 2, 6], [4, 12]) is None


def test_rows_are_not_split_with_what_follows_them() -> None:
    assert split_like(Cut(0), [4, 2, 32], [8, 2, 2, 8]) is None
    assert split_like(Cut(2), [8, 2, 48], [8, 2, 2, 8]) == Cut(2)


@pytest.mark.parametrize(
    ("equation", "cuts", "found"),
    [
        ("sbhd,tbhd->bhst", (Cut(0), None), (False, Cut(2))),
        ("sbhd, tbhd -> bhst", (Cut(2), Cut(2)), (False, Cut(1))),
        ("bhst,tbhd->sbhd", (Cut(3), Cut(0)), (True, None)),  # partial sums over t
        ("...d,...d->...", (Cut(0), Cut(0)), None),
        ("sbhd,tbhd", (Cut(0), None), None),
        ("sbhd,tbhd->bhst", (Cut(0), Cut(0)), None),  # cut along two indices
    ],
)
def test_sums_by_indices(
    equation: str, cuts: tuple[Cut | None, ...], found: tuple[bool, Cut | None] | None
) -> None:
    shapes = [[4, 4, 4, 4] if "..." not in equation else [4, 4]] * 2
    assert summed_cut(equation, cuts, shapes) == found


def test_a_cut_does_not_survive_in_a_shape_of_other_tensors() -> None:
    assert reshaped(Cut(0), [8, 2, 4, 4], [2, 4, 8, 16]) is None
    assert reshaped(Cut(2), [8, 2, 12], [8, 2, 4]) == Cut(2)  # split along the cut
    assert reshaped(Cut(0), [8, 2, 12], [8, 2, 4]) == Cut(0)


@pytest.mark.parametrize(
    ("name", "numbers", "is_first"),
    [
        *[(name, [], True) for name in ("bmm", "baddbmm")],
        *[("transpose", numbers, numbers == [0, 1]) for numbers in ([0, 1], [1, 0], [1, 2], [])],
        *[(name, [0, 1], False) for name in ("matmul", "relu", "reshape")],
    ],
)
@pytest.mark.parametrize("shape", [[6], [6, 4], [6, 4, 4], [2, 3, 4, 4]])
def test_batches_of_heads_come_first_in_three_dimensions(
    name: str, numbers: list[int], shape: list[int], *, is_first: bool
) -> None:
    assert takes_batch_first(row_of(name), shape, numbers) == (is_first and len(shape) == 3)
