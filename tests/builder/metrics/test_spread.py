"""Where and how tensors differ, from their pieces: the same as of the whole, worked out plainly."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msprobe_builder import BuildConfig, build
from msprobe_builder.facts.fact import decode
from msprobe_builder.facts.wording import tell
from msprobe_builder.metrics.spread import Spread, spread
from msprobe_builder.metrics.tensor_file import StoredTensor, pieces
from msprobe_builder.sketch.definition import slice_length
from tests.builder.metrics.small_dump import call, tensor, write_dump, write_npy

Array = np.ndarray
SHAPES = st.one_of(
    st.lists(st.integers(1, 12), max_size=4).map(tuple),
    st.tuples(st.integers(1, 90), st.integers(1, 90)),
    st.integers(1, 3000).map(lambda n: (n,)),
)


def of(n: Array, b: Array, size: int = 1 << 16) -> Spread:
    one, other = StoredTensor(n.shape, n), StoredTensor(b.shape, b)
    found: Iterator[tuple[Any, Any]] = (
        (one.piece(index), other.piece(index)) for index in pieces(n.shape, size)
    )
    return spread(n.shape, found)


def drawn(shape: tuple[int, ...], seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


@settings(max_examples=80, deadline=None)
@given(SHAPES, st.integers(1, 200))
def test_pieces_of_any_size_tell_what_the_definitions_say(
    shape: tuple[int, ...], size: int
) -> None:
    b, d = drawn(shape), 0.3 * drawn(shape, 1)
    found = of(b + d, b, size)
    assert found.relative == pytest.approx(np.linalg.norm(d) / np.linalg.norm(b))
    if d.size >= 4:
        total = (d * d).sum()
        assert found.factor_share == pytest.approx((d * b).sum() ** 2 / (b * b).sum() / total)
        assert found.offset_share == pytest.approx(d.sum() ** 2 / d.size / total)
    table = d.reshape(-1, shape[-1] if shape else 1) ** 2
    for part, axis in ((found.slices[:16], 1), (found.slices[16:], 0)):
        sums = table.sum(axis)
        length = slice_length(len(sums))
        wanted = [sums[place * length : (place + 1) * length].sum() for place in range(16)]
        assert np.allclose(part, 255 * np.array(wanted) / (d * d).sum(), atol=0.51)


CHANGED = drawn((512, 64))
ORDER = np.r_[0:32, 64:96, 32:64, 96:512]


@pytest.mark.parametrize("size", [100, 64 * 50, 1 << 16])
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (CHANGED[ORDER], "rows 32–63 and 64–95 exchanged"),
        (CHANGED[:, np.r_[4:8, 0:4, 8:64]], "columns 0–3 and 4–7 exchanged"),
        (np.where(np.arange(64) == 9, 2 * CHANGED, CHANGED), "differs only in columns 8–11"),
        (1.35 * CHANGED, "differs by nothing but a factor: 1.35 times the reference"),
        (CHANGED - 2, "differs by nothing but an offset of -2"),
        (CHANGED + 0.1 * drawn((512, 64), 3), ""),
    ],
)
def test_the_words_are_those_of_sketches(changed: Array, words: str, size: int) -> None:
    assert tell(of(changed, CHANGED, size).said) == words


def test_complex_numbers_count_as_two_and_what_is_not_finite_is_left_out() -> None:
    b = drawn((8, 6)) + 1j * drawn((8, 6), 1)
    n = b.copy()
    n[2, 1] += 1j
    found = of(n, b, 12)
    assert found.relative == pytest.approx(1 / np.linalg.norm(b))
    assert np.flatnonzero(found.slices).tolist() == [2, 16 + 3]  # the imaginary part of column 1
    n[5, 5] = complex(np.nan, b[5, 5].imag)
    assert of(n, b).slices.tolist() == found.slices.tolist()
    huge = np.full((4, 4), 1e300)
    assert not np.isfinite(of(huge, -huge).factor_share)


def test_tensors_fill_the_columns_that_sketches_estimate(tmp_path: Path) -> None:
    arrays = {"npu": [CHANGED[ORDER], 1.5 * CHANGED, CHANGED], "bench": [CHANGED] * 3}
    for side, content in arrays.items():
        outputs = [
            tensor(array, data_name=f"t{number}.npy") for number, array in enumerate(content)
        ]
        write_dump(tmp_path / side, {"Functional.gelu.0.forward": call([], outputs)}, task="tensor")
        for number, array in enumerate(content):
            write_npy(tmp_path / side, f"t{number}.npy", array)
    built = build(
        BuildConfig(tmp_path / "npu", tmp_path / "bench"), tmp_path / "out", name="a.vis.db"
    )
    with closing(sqlite3.connect(built.path)) as database:
        rows = database.execute(
            "SELECT relative_difference, factor_share, note FROM tensor_view WHERE side = 'npu'"
        ).fetchall()
        slices = [one for (one,) in database.execute("SELECT slices FROM comparison")]
    moved, larger, same = ((one, share, tell(decode(note or ""))) for one, share, note in rows)
    truth = np.linalg.norm(CHANGED[ORDER] - CHANGED) / np.linalg.norm(CHANGED)
    assert moved[0] == pytest.approx(truth)
    assert moved[2] == "rows 32–63 and 64–95 exchanged"
    assert larger[:2] == pytest.approx((0.5, 1))
    assert same == (0, None, "")
    assert [one is None for one in slices] == [False, False, True]
