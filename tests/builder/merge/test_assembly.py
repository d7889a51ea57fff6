"""Tensors cut into files in every way, and put together again."""

from __future__ import annotations

from itertools import accumulate
from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe_builder.graph.assembly import (
    Assembly,
    Order,
    TensorFile,
    from_text,
    joined_shape,
    to_text,
)
from msprobe_builder.merge.flow.context import sequence_orders
from msprobe_builder.metrics.joined import open_assembly
from msprobe_builder.metrics.tensor_file import TensorFileError, pieces

SHAPES = st.lists(st.integers(1, 3), min_size=1, max_size=4)


def orders(parts: int) -> st.SearchStrategy[Order]:
    blocks = st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple)
    return blocks.map(Order) | st.sampled_from(sequence_orders(parts))


def cut(whole: np.ndarray, assembly: Assembly) -> list[np.ndarray]:
    """The parts of a tensor, by the definition of an assembly."""
    dimension, outer, [order] = assembly.dimension, assembly.outer, assembly.orders
    assert dimension is not None
    count = len(assembly.parts)
    shape = whole.shape
    view = whole.reshape(*shape[:dimension], outer, -1, *shape[dimension + 1 :])
    unit = view.shape[dimension + 1] // count // sum(order.blocks)
    sequence = order.sequence(count)
    ends = [*accumulate(order.blocks[block] * unit for _, block in sequence)]
    found = dict(zip(sequence, np.split(view, ends[:-1], dimension + 1), strict=True))
    return [
        np.concatenate(
            [found[part, block] for block in range(len(order.blocks))], dimension + 1
        ).reshape(*shape[:dimension], -1, *shape[dimension + 1 :])
        for part in range(count)
    ]


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, Assembly]:
    shape = draw(SHAPES)
    dimension = draw(st.integers(0, len(shape) - 1))
    parts, outer = draw(st.integers(1, 4)), draw(st.sampled_from([1, 1, 2, 3]))
    order = draw(orders(parts))
    shape[dimension] *= parts * outer * sum(order.blocks)
    dtype = draw(st.sampled_from([np.float32, np.float16, np.int64, np.complex64]))
    whole = np.arange(prod(shape)).reshape(shape).astype(dtype)
    files = tuple(TensorFile(None, f"part{part}.npy") for part in range(parts))
    return whole, Assembly(files, dimension, outer, (order,))


@given(cases(), st.sampled_from([1, 7, 1 << 15]))
def test_what_was_cut_is_joined_to_the_same(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[np.ndarray, Assembly], size: int
) -> None:
    whole, assembly = case
    folder = tmp_path_factory.mktemp("parts")
    parts = cut(whole, assembly)
    for part, values in enumerate(parts):
        np.save(folder / f"part{part}.npy", values)
    text = to_text(assembly, {None: 0})
    here = from_text(text, {0: folder})
    assert from_text(text, {0: None}) == assembly
    assert joined_shape([part.shape for part in parts], assembly) == list(whole.shape)
    joined = open_assembly(here)
    assert joined.shape == whole.shape
    found = np.concatenate([joined.piece(index) for index in pieces(joined.shape, size)])
    np.testing.assert_array_equal(found, whole.reshape(-1))


@pytest.mark.parametrize("dimension", range(3))
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 12, 24])
def test_pieces_of_every_size_along_every_dimension(
    tmp_path: Path, dimension: int, size: int
) -> None:
    whole = np.arange(2 * 4 * 6.0).reshape(2, 4, 6)
    files = []
    for number, part in enumerate(np.split(whole, 2, axis=dimension)):
        np.save(tmp_path / f"{number}.npy", part)
        files.append(TensorFile(tmp_path, f"{number}.npy"))
    joined = open_assembly(Assembly(tuple(files), dimension))
    found = np.concatenate([joined.piece(index) for index in pieces(joined.shape, size)])
    np.testing.assert_array_equal(found, whole.reshape(-1))


def test_parts_of_parts(tmp_path: Path) -> None:
    """Tensor-parallel shards of two context-parallel slices."""
    whole = np.arange(2 * 8 * 6.0).reshape(2, 8, 6)
    [_, both_ends] = sequence_orders(2)
    inner = []
    front = Assembly((TensorFile(None, "a"), TensorFile(None, "b")), 1, 1, (both_ends,))
    for number, part in enumerate(cut(whole, front)):
        files = []
        for half in range(2):
            name = f"{number}{half}.npy"
            np.save(tmp_path / name, part[:, :, 3 * half : 3 * half + 3])
            files.append(TensorFile(tmp_path, name))
        inner.append(Assembly(tuple(files), 2))
    joined = open_assembly(Assembly(tuple(inner), 1, 1, (both_ends,)))
    np.testing.assert_array_equal(joined.piece((...,)), whole.reshape(-1))


def test_parts_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    for name, shape in (("a.npy", (2, 3)), ("b.npy", (2, 4))):
        np.save(tmp_path / name, np.zeros(shape))
    files = TensorFile(tmp_path, "a.npy"), TensorFile(tmp_path, "b.npy")
    with pytest.raises(TensorFileError, match=r"\[2, 3\], \[2, 4\] do not fit together"):
        open_assembly(Assembly(files, 0))
    assert open_assembly(Assembly(files, 1)).shape == (2, 7)


def test_a_part_out_of_its_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    np.save(tmp_path / "a.npy", np.zeros(2))
    file = TensorFile(tmp_path / "inside", "../a.npy")
    with pytest.raises(TensorFileError) as caught:
        open_assembly(Assembly((file, file), 0))
    assert caught.value.code == "refused"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"parts": []}',
        '{"parts": [[7, "a"]]}',
        '{"parts": [[0, "a"]], "outer": 0}',
        '{"parts": [[0, "a"]], "dimension": "x"}',
        '{"parts": [[0, "a"]], "orders": []}',
        '{"parts": [[0, "a"]], "orders": [[[0], []]]}',
        '{"parts": [[0, "a"]], "orders": [[[], []]]}',
        '{"parts": [[0, "a"]], "orders": [[[1], [[1, 0]]]]}',
        '{"parts": [{"parts": []}]}',
        "[" * 100_000,
    ],
)
def test_what_describes_no_tensor_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="describes no tensor"):
        from_text(text, {0: None})
