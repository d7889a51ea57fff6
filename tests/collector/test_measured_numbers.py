"""The numbers that the monitor reads from tensors of any size and type."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from msprobe_collector.monitor.measure import measure
from msprobe_collector.monitor.numbers import Numbers


def expected(tensor: torch.Tensor) -> dict[str, float]:
    values = tensor.detach().double().numpy()
    return {
        "norm": float(np.sqrt((values**2).sum())),
        "mean": float(values.mean()),
        "max": float(values.max()),
        "min": float(values.min()),
        "zeros": float((values == 0).sum()),
        "nans": float(np.isnan(values).sum()),
        "count": float(values.size),
    }


@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (1 << 20,), ((1 << 20) + 7,)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.float16])
def test_a_tensor_of_any_size_is_measured_rightly(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    values = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    if values.numel() > 2:
        values.view(-1)[1::3] = -0.0
    for poison in (None, math.nan, math.inf):
        if poison is not None:
            values.view(-1)[0] = poison
        found = measure(values)
        assert isinstance(found, Numbers)
        with np.errstate(all="ignore"):
            wanted = expected(values)
        assert found.zeros == wanted["zeros"]
        assert found.nans == wanted["nans"]
        shown = {"norm": found.norm, "mean": found.mean, "max": found.high, "min": found.low}
        for name, value in shown.items():
            assert value == pytest.approx(wanted[name], rel=2e-5, abs=1e-6, nan_ok=True), name


@pytest.fixture
def four_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("four_threads")
@pytest.mark.parametrize("shape", [(3,), ((1 << 20) + 7,)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_many_threads_measure_the_same(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    test_a_tensor_of_any_size_is_measured_rightly(shape, dtype)


def test_large_numbers_have_a_norm_although_their_squares_have_none() -> None:
    found = measure(torch.full((10,), 1e30))
    assert isinstance(found, Numbers)
    assert found.norm == pytest.approx(1e30 * math.sqrt(10))
