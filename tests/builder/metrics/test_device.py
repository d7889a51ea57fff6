"""What another device computes agrees with numpy to rounding."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from msprobe_builder import BuildConfig, BuildError, BuildOptions, UsageError, build
from msprobe_builder.metrics.device import _DEVICE_PIECE, computer, torch_part
from msprobe_builder.metrics.elementwise import part_errors, tensor_errors

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=CUDA)]
PAIRS = arrays.arrays(np.float64, st.tuples(st.just(2), st.integers(1, 40)), elements=st.floats())


@pytest.mark.parametrize("device", DEVICES)
@given(PAIRS)
@example(np.array([[0.0, 1.0], [0.0, 1.0]]))
@example(np.array([[np.inf, np.nan, -np.inf], [np.inf, np.nan, np.inf]]))
@example(np.array([[1e308, -1e308, 5e-324], [-1e308, -1e308, 0.0]]))
@example(np.array([[-3.4e38, 3.4e38, 1, 1, 1], [1.0, 1, 1, 1, 1]]))
def test_any_numbers(device: str, pair: np.ndarray) -> None:
    expected = part_errors(pair[0].copy(), pair[1].copy())
    found = torch_part(torch, pair[0], pair[1], device)
    np.testing.assert_allclose(found[:6], expected[:6], rtol=1e-12)
    # The cosine may cancel: of 40 products rounding leaves at most 40 · 2⁻⁵² of |n| · |b|
    # (Higham, Accuracy and Stability of Numerical Algorithms, 3.1).
    here, there = (
        astuple(tensor_errors([(pair[0].copy(), pair[1].copy())], part_of))
        for part_of in (part_errors, lambda n, b: torch_part(torch, n, b, device))
    )
    np.testing.assert_allclose(there[0], here[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(there[1:], here[1:], rtol=1e-12)


@pytest.mark.parametrize("device", DEVICES)
def test_tensors_of_all_magnitudes(device: str) -> None:
    random = np.random.default_rng(1)
    b = random.standard_normal(100_000) * 10.0 ** random.integers(-12, 12, 100_000)
    n = b * (1 + random.standard_normal(b.size) * 0.002)
    n[::1000] = np.nan
    pieces = [
        (n[start : start + 30_000], b[start : start + 30_000]) for start in range(0, 90_001, 30_000)
    ]
    here = tensor_errors((x.copy(), y) for x, y in pieces)
    there = tensor_errors(pieces, lambda x, y: torch_part(torch, x, y, device))
    np.testing.assert_allclose(astuple(there), astuple(here), rtol=1e-12)
    assert 0.2 < here.one_thousandth_ratio < 0.6


@CUDA
def test_a_comparison_on_cuda(dumps: Path, tmp_path: Path) -> None:
    names = "llama_tensor_wrong_attention_scale", "llama_tensor"
    npu, bench = (dumps / name / "step0" / "rank" for name in names)
    errors = []
    for device in ("cpu", "cuda"):
        config = BuildConfig(npu, bench, options=BuildOptions(device=device))
        path = build(config, tmp_path / device).path
        with closing(sqlite3.connect(path)) as connection:
            rows = connection.execute("SELECT * FROM comparison").fetchall()
        errors.append([[np.nan if one is None else one for one in row] for row in rows])
    assert len(errors[0]) > 1000
    np.testing.assert_allclose(errors[1], errors[0], rtol=1e-9, atol=1e-12)


@CUDA
def test_pieces_keep_the_device_busy() -> None:
    on = computer("cuda")
    assert on.piece == _DEVICE_PIECE
    integers = np.arange(5)
    assert on.part_of(integers, integers) == part_errors(integers, integers)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there(dumps: Path, tmp_path: Path) -> None:
    dump = dumps / "llama_tensor" / "step0" / "rank"
    config = BuildConfig(dump, dump, options=BuildOptions(device="cuda:1"))
    with pytest.raises(BuildError, match="There is no device cuda:1 here"):
        build(config, tmp_path)
    npu = BuildConfig(dump, dump, options=BuildOptions(device="npu"))
    with pytest.raises(BuildError, match="needs torch_npu; install"):
        build(npu, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "cpu:1", "meta", ""])
def test_a_name_of_no_device(dumps: Path, tmp_path: Path, name: str) -> None:
    dump = dumps / "llama_tensor" / "step0" / "rank"
    with pytest.raises(UsageError, match="is none of cpu, cuda"):
        build(BuildConfig(dump, dump, options=BuildOptions(device=name)), tmp_path)


@pytest.mark.parametrize(("device", "count"), [("cpu", 0), ("cuda", 1)])
def test_a_device_for_dumps_without_elements_is_told_to_be_of_no_use(
    dumps: Path, tmp_path: Path, device: str, count: int
) -> None:
    dump = dumps / "vit_statistics"
    found = build(BuildConfig(dump, dump, options=BuildOptions(device=device)), tmp_path)
    told = [one.message for one in found.diagnostics if one.code == "device_without_use"]
    assert len(told) == count
    assert all("--device cuda" in one and "statistics" in one for one in told)
