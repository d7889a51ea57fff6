"""What the sketches of two tensors tell of them, held against the tensors themselves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msprobe_builder.base.codes import SLICES
from msprobe_builder.sketch.definition import (
    NUMBERS,
    grid_of,
    sketch_of,
    slice_length,
    slices_in,
    slices_of_ones,
)
from msprobe_builder.sketch.estimates import (
    NOWHERE,
    ROUNDING,
    Estimates,
    estimates,
    layouts_of,
    moved_slices,
    named,
    slices_of,
)
from msprobe_builder.sketch.layout import rows_of

SHAPES = st.one_of(
    st.tuples(st.integers(1, 200), st.integers(1, 200)),
    st.tuples(st.integers(1, 8), st.integers(1, 8), st.integers(1, 64), st.integers(1, 64)),
    st.integers(1, 5000).map(lambda n: (n,)),
    st.just(()),
)
Array = np.ndarray


def sketched(arrays: Sequence[Array]) -> Array:
    found = [sketch_of(one) for one in arrays]
    return rows_of(
        np.array([one.numbers for one in found]).reshape(-1, NUMBERS),
        [one.nans for one in found],
        [one.infinities for one in found],
    )


def told(ours: Sequence[Array], reference: Sequence[Array]) -> Estimates:
    """Of pairs of tensors, with the norms that a dump would hold."""
    norm, other = (
        np.array([np.linalg.norm(one.astype(float)) for one in side]) for side in (ours, reference)
    )
    layouts = layouts_of([one.shape for one in reference])
    return estimates(sketched(ours), sketched(reference), norm, other, layouts)


def moved(ours: Array, reference: Array) -> Array:
    """Of one pair, (2, SLICES): of rows and of columns."""
    norms = np.array([np.linalg.norm(reference)])
    sketches = sketched([ours]), sketched([reference])
    return moved_slices(*sketches, norms, layouts_of([reference.shape])).reshape(2, SLICES)


def drawn(shape: tuple[int, ...], seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


@settings(max_examples=40, deadline=None)
@given(SHAPES, st.floats(0.01, 100))
def test_a_scale_changes_no_estimate_but_the_offset(shape: tuple[int, ...], factor: float) -> None:
    ours, reference = drawn(shape, 1), drawn(shape, 2)
    one, other = told([ours], [reference]), told([factor * ours], [factor * reference])
    for name in ("relative", "cosine", "factor", "factor_share", "offset_share"):
        assert np.allclose(getattr(one, name), getattr(other, name), 1e-3, 1e-3, equal_nan=True)
    assert np.allclose(factor * one.offset, other.offset, 1e-3, 1e-3 * factor)
    assert (one.rows, one.columns) == (other.rows, other.columns)


@settings(max_examples=40, deadline=None)
@given(SHAPES)
def test_equal_tensors_do_not_differ(shape: tuple[int, ...]) -> None:
    array = drawn(shape)
    found = told([array], [array.copy()])
    assert found.relative == 0
    assert found.cosine == pytest.approx(1)
    assert not (found.rows | found.columns)
    assert not found.shares.any()
    assert (moved(array, array.copy()) == NOWHERE).all()


def test_the_size_of_diffuse_differences_is_right_within_1_35() -> None:
    rng = np.random.default_rng(3)
    ratios, cosines = [], []
    for size in (1e-5, 1e-3, 0.1, 1.0):
        shapes = [(64, 64), (33, 100), (512, 32), (4, 8, 16, 32), (5000,)] * 12
        reference = [rng.standard_normal(shape) for shape in shapes]
        ours = [one + size * rng.standard_normal(one.shape) for one in reference]
        found = told(ours, reference)
        truth = [
            np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in zip(ours, reference, strict=True)
        ]
        ratios.append(found.relative / np.array(truth))
        true_cosine = [
            (a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b)
            for a, b in zip(ours, reference, strict=True)
        ]
        cosines.append(np.abs(found.cosine - np.array(true_cosine)))
    ratio, off = np.concatenate(ratios), np.concatenate(cosines)
    assert np.mean((ratio < 1.35) & (ratio > 1 / 1.35)) >= 0.93
    assert off.max() < 0.35
    assert np.median(off) < 0.02


@settings(max_examples=60, deadline=None)
@given(SHAPES.filter(lambda shape: np.prod(shape) >= 8), st.sampled_from([-1.0, 0.0, 0.5, 1.35, 8]))
def test_a_factor_is_told_from_all_else(shape: tuple[int, ...], factor: float) -> None:
    reference = drawn(shape)
    found = told([(factor * reference).astype(np.float32)], [reference.astype(np.float32)])
    assert found.factor_share == pytest.approx(1, abs=1e-5)
    assert found.factor == pytest.approx(factor, abs=1e-4)
    assert found.relative == pytest.approx(abs(factor - 1), rel=0.6)


@settings(max_examples=60, deadline=None)
@given(SHAPES.filter(lambda shape: np.prod(shape) >= 64), st.sampled_from([-3.0, 0.01, 7.0]))
def test_an_offset_is_told_from_all_else(shape: tuple[int, ...], offset: float) -> None:
    reference = drawn(shape)
    found = told([reference + offset], [reference])
    if np.isnan(found.offset_share).any():
        return  # too few slices to tell
    assert found.offset_share == pytest.approx(1, abs=1e-3)
    assert found.offset == pytest.approx(offset, rel=1e-3)


def test_a_difference_of_its_own_is_neither_factor_nor_offset() -> None:
    shapes = [(64, 64), (300, 20), (4, 16, 32)] * 100
    reference = [drawn(shape, seed) for seed, shape in enumerate(shapes)]
    ours = [one + 0.1 * drawn(one.shape, 1000 + seed) for seed, one in enumerate(reference)]
    found = told(ours, reference)
    for share in (found.factor_share, found.offset_share):
        assert share.mean() < 0.05
        assert share.max() < 0.6


@settings(max_examples=30, deadline=None)
@given(SHAPES)
def test_the_sums_of_ones_are_those_of_a_tensor_of_ones(shape: tuple[int, ...]) -> None:
    wanted = sketch_of(np.ones(shape)).numbers[NUMBERS - 2 * SLICES :]
    assert np.array_equal(slices_of_ones(grid_of(shape)), wanted)


@settings(max_examples=60, deadline=None)
@given(st.integers(32, 400), st.integers(32, 200), st.integers(0, 1 << 20), st.booleans())
def test_where_a_tensor_differs_is_named(rows: int, columns: int, draw: int, turned: bool) -> None:
    """A few slices of the rows, or of the columns, and nothing else."""
    reference = drawn((rows, columns), draw)
    rng = np.random.default_rng(draw)
    chosen = sorted(rng.choice(slices_in(rows), rng.integers(1, 4), replace=False).tolist())
    ours = reference.copy()
    for place in chosen:
        part = slice(place * slice_length(rows), (place + 1) * slice_length(rows))
        ours[part] += rng.standard_normal(ours[part].shape)
    if turned:
        ours, reference = ours.T, reference.T
    found = told([ours], [reference])
    mask, other = (found.columns, found.rows) if turned else (found.rows, found.columns)
    # A slice may hold almost nothing of the signed sums by chance; no other one is named.
    assert set(slices_of(int(mask[0]))) <= set(chosen)
    assert mask[0]
    assert not other[0] or len(slices_of(int(other[0]))) <= SLICES // 2
    shares = found.shares[0, SLICES:] if turned else found.shares[0, :SLICES]
    assert abs(int(shares.sum()) - 255) <= SLICES
    assert set(np.flatnonzero(shares).tolist()) <= set(chosen)


def test_a_difference_everywhere_is_called_nowhere_in_particular() -> None:
    shapes = [(64, 64), (2, 100), (3, 40), (5, 7), (300, 20), (16, 16)] * 200
    reference = [drawn(shape, seed) for seed, shape in enumerate(shapes)]
    ours = [one + 1e-3 * drawn(one.shape, 10_000 + seed) for seed, one in enumerate(reference)]
    found = told(ours, reference)
    assert np.count_nonzero(found.rows) + np.count_nonzero(found.columns) <= 3
    several = [moved(*one) for one in zip(ours, reference, strict=True)]
    assert sum(bool((one != NOWHERE).any()) for one in several) <= 2


@settings(max_examples=60, deadline=None)
@given(
    st.integers(16, 300),
    st.integers(8, 60),
    st.integers(0, 1 << 20),
    st.sampled_from([0.0, 1e-3]),
    st.booleans(),
)
def test_slices_that_moved_are_found_where_they_came_from(
    rows: int, columns: int, draw: int, noise: float, turned: bool
) -> None:
    reference = drawn((rows, columns), draw)
    rng = np.random.default_rng(draw)
    length = slice_length(rows)
    whole = rows // length  # the last slice may be short
    if whole < 4:
        return
    one, other = sorted(rng.choice(whole, 2, replace=False).tolist())
    order = list(range(rows))
    first, second = (list(range(place * length, (place + 1) * length)) for place in (one, other))
    for own, there in zip(first, second, strict=True):
        order[own], order[there] = there, own
    ours = reference[order] + noise * rng.standard_normal(reference.shape)
    if turned:
        ours, reference = ours.T, reference.T
    found = moved(ours, reference)[int(turned)]
    wanted = np.full(SLICES, NOWHERE)
    wanted[[one, other]] = other, one
    apart = abs(
        sketch_of(ours).numbers[NUMBERS - SLICES if turned else 32 :][one]
        - sketch_of(reference).numbers[NUMBERS - SLICES if turned else 32 :][one]
    )
    if apart > 400 * (noise + ROUNDING) * np.sqrt(length * columns):
        assert found.tolist() == wanted.tolist()
    else:  # both sums are nearly equal by chance
        assert found.tolist() == wanted.tolist() or (found == NOWHERE).all()


@pytest.mark.parametrize("by", [1, 3, -2])
@pytest.mark.parametrize("round_", [True, False])
def test_a_shift_is_found_with_or_without_what_came_in_at_its_edge(by: int, round_: bool) -> None:
    reference = drawn((12, 40))
    ours = np.roll(reference, by, axis=0)
    if not round_:
        edge = slice(0, by) if by > 0 else slice(by, None)
        ours[edge] = drawn((abs(by), 40), 5)
    found = moved(ours, reference)[0]
    kept = [place for place in range(12) if 0 <= place - by < 12]
    assert [int(found[place]) for place in kept] == [place - by for place in kept]
    edge_places = [place for place in range(12) if place not in kept]
    wanted = [(place - by) % 12 if round_ else NOWHERE for place in edge_places]
    assert [int(found[place]) for place in edge_places] == wanted


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38])
def test_numbers_of_any_kind_give_no_error_and_touch_no_other_pair(bad: float) -> None:
    reference = [drawn((20, 30), seed) for seed in range(3)]
    ours = [1.5 * one for one in reference]
    rows, there = sketched(ours), sketched(reference)
    rows["numbers"][1] = bad
    norms = np.array([1.0, bad, 1.0])
    layouts = layouts_of([(20, 30)] * 3)
    found = estimates(rows, there, norms, np.ones(3), layouts)
    alone = estimates(
        rows[[0, 2]], there[[0, 2]], norms[[0, 2]], np.ones(2), layouts.of(np.arange(2))
    )
    for name in Estimates._fields:
        field, one = getattr(found, name), getattr(alone, name)
        assert np.array_equal(field[[0, 2]], one, equal_nan=field.dtype.kind == "f"), name
    assert not found.relative[1] <= 1e30


def test_sums_that_left_the_range_are_equal_where_their_bits_are() -> None:
    array = np.full((40, 40), -3.0e38)
    found = told([array, array], [array, array / 2])
    assert found.relative[0] == 0
    assert np.isnan(found.relative[1]) or found.relative[1] > 0


def test_of_exact_squares_few_slices_need_hold_but_99_percent() -> None:
    squares = np.zeros((3, SLICES))
    squares[0, 3], squares[0, 5], squares[0, 6] = 70, 29.5, 0.5
    squares[1] = 1
    squares[2, :2] = 1, 1e-9
    masks = named(squares, np.array([16, 16, 2]), by_chance=False)
    assert masks.tolist() == [1 << 3 | 1 << 5, 0, 1]
    assert named(squares[2:], np.array([2]), by_chance=True).tolist() == [1]
