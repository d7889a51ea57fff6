"""What the numbers of a sketch promise, of tensors of any shape."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msprobe_builder.base.codes import SLICES
from msprobe_builder.sketch.definition import (
    FLAT,
    flat_signs,
    grid_of,
    matrix_of,
    sketch_of,
    slice_length,
)

SHAPES = st.one_of(
    st.lists(st.integers(0, 12), max_size=4).map(tuple),
    st.tuples(st.integers(1, 300), st.integers(1, 300)),
    st.integers(1, 20_000).map(lambda n: (n,)),
)


def drawn(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def close(found: np.ndarray, wanted: np.ndarray, size: float) -> bool:
    return bool(np.abs(found - wanted).max(initial=0) <= 1e-6 * size + 1e-30)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 9), max_size=4).map(tuple))
def test_a_product_with_the_matrix_is_the_sketch(shape: tuple[int, ...]) -> None:
    array = drawn(shape)
    found = array.reshape(-1) @ matrix_of(grid_of(shape))
    assert close(found, sketch_of(array).numbers, 10 * np.sqrt(array.size))


@settings(max_examples=60, deadline=None)
@given(SHAPES, st.floats(-4, 4, width=16))
def test_the_sketch_of_a_sum_is_the_sum_of_the_sketches(
    shape: tuple[int, ...], factor: float
) -> None:
    one, other = drawn(shape, 1), drawn(shape, 2)
    found = sketch_of(one + factor * other).numbers
    wanted = sketch_of(one).numbers + factor * sketch_of(other).numbers
    assert close(found, wanted, 10 * np.sqrt(one.size + 1))


@settings(max_examples=60, deadline=None)
@given(SHAPES)
def test_the_flat_part_keeps_under_reshape_and_layout(shape: tuple[int, ...]) -> None:
    array = drawn(shape)
    flat = sketch_of(array.reshape(-1)).numbers[:FLAT]
    assert np.array_equal(sketch_of(array).numbers[:FLAT], flat)
    turned = np.asfortranarray(array)
    assert np.array_equal(sketch_of(turned).numbers, sketch_of(array).numbers)


@pytest.mark.parametrize("shape", [(), (1,), (5,), (32,), (4, 8)])
def test_few_numbers_are_their_own_sketch(shape: tuple[int, ...]) -> None:
    array = drawn(shape).astype(np.float32)
    numbers = sketch_of(array).numbers[:FLAT]
    assert np.array_equal(numbers[: array.size], array.reshape(-1))
    assert not numbers[array.size :].any()


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("whole", "parts"), [(1024, 4), (2048, 2), (4096, 8), (1024, 16)])
def test_shards_cut_at_multiples_of_64_add_up(axis: int, whole: int, parts: int) -> None:
    """Each slice of the whole is the sum of the slices of the shards that lie in it."""
    shape = (whole, 24) if axis == 0 else (24, whole)
    array = drawn(shape)
    sketches = [sketch_of(part) for part in np.split(array, parts, axis)]
    along = slice(FLAT, FLAT + SLICES) if axis == 0 else slice(FLAT + SLICES, None)
    across = slice(FLAT + SLICES, None) if axis == 0 else slice(FLAT, FLAT + SLICES)
    whole_sketch = sketch_of(array).numbers
    added = np.sum([sketch.numbers[across] for sketch in sketches], axis=0, dtype=float)
    assert close(added, whole_sketch[across], np.sqrt(array.size))
    if whole // parts >= SLICES * 64:  # the slices of the shards are not cut inside a period
        length = slice_length(whole // parts)
        sums = np.concatenate([sketch.numbers[along] for sketch in sketches])
        sums = sums.reshape(SLICES, slice_length(whole) // length).sum(1)
        assert close(sums, whole_sketch[along], np.sqrt(array.size))


def test_equal_slices_have_equal_sums_wherever_they_are() -> None:
    array = drawn((64, 48))
    moved = np.concatenate((array[4:], array[:4]))  # by one slice of rows
    rows = sketch_of(array).numbers[FLAT : FLAT + SLICES]
    assert np.array_equal(np.roll(rows, -1), sketch_of(moved).numbers[FLAT : FLAT + SLICES])
    exchanged = array[:, np.r_[3:6, 0:3, 6:48]]
    columns = sketch_of(array).numbers[FLAT + SLICES :]
    assert np.array_equal(
        columns[np.r_[1, 0, 2:SLICES]], sketch_of(exchanged).numbers[FLAT + SLICES :]
    )


def test_what_is_not_finite_is_counted_and_left_out() -> None:
    array = drawn((20, 30))
    array[3, 4], array[5, 5:8], array[6, 0] = np.nan, np.inf, 1e300  # no float32
    sketch = sketch_of(array)
    assert (sketch.nans, sketch.infinities) == (1, 4)
    rest = np.where(np.isfinite(array) & (array < 1e300), array, 0)
    assert np.array_equal(sketch.numbers, sketch_of(rest).numbers)


def test_a_complex_number_counts_as_two() -> None:
    array = drawn((8, 16)) + 1j * drawn((8, 16), 1)
    wide = np.stack((array.real, array.imag), -1).reshape(8, 32)
    assert np.array_equal(sketch_of(array).numbers, sketch_of(wide).numbers)


@pytest.mark.parametrize("length", [64, 1000, 5000])
def test_longer_signs_begin_as_shorter_ones_and_keep_constants_in_size(length: int) -> None:
    signs, longer = flat_signs(length), flat_signs(4 * length)
    for short, long in zip(signs, longer, strict=True):
        assert np.array_equal(short, long[:, : short.shape[1]])
        sums = np.cumsum(long, 1, dtype=float)
        counts = np.arange(1, long.shape[1] + 1) * len(long)
        share = (sums**2).sum(0) / counts
        assert share[63:].max() < 2.2
        assert share[63:].min() > 0.4


# By kind of difference; ``share`` of the cases within ``factor`` of the truth.
DIFFERENCES: dict[str, tuple[float, float, Callable[..., np.ndarray]]] = {
    "noise": (1.35, 0.93, lambda rng, shape: rng.standard_normal(shape)),
    "a constant": (1.35, 0.8, lambda _, shape: np.ones(shape)),
    "one row": (2, 0.95, lambda rng, shape: one_row(rng, shape)),
    "one column": (2, 0.95, lambda rng, shape: one_row(rng, shape[::-1]).T),
    "one element": (1.001, 1, lambda rng, shape: one_element(rng, shape)),
    "low rank": (2, 0.95, lambda rng, shape: np.outer(*(rng.standard_normal(n) for n in shape))),
}


def one_row(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    array = np.zeros(shape)
    array[rng.integers(shape[0])] = rng.standard_normal(shape[1])
    return array


def one_element(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    array = np.zeros(prod(shape))
    array[rng.integers(array.size)] = 1
    return array.reshape(shape)


@pytest.mark.parametrize("kind", DIFFERENCES)
def test_the_length_of_a_difference_is_estimated(kind: str) -> None:
    factor, share, make = DIFFERENCES[kind]
    rng = np.random.default_rng(7)
    sizes = [(64, 64), (33, 100), (512, 256), (16, 4096), (4096, 16), (128, 128)]
    ratios = []
    for shape in sizes * 20:
        difference = make(rng, shape)
        estimate = np.linalg.norm(sketch_of(difference).numbers[:FLAT].astype(float))
        ratios.append(estimate / np.linalg.norm(difference))
    found = np.array(ratios)
    assert np.mean((found < factor) & (found > 1 / factor)) >= share
