"""Norms on the host: exact for many numbers, and the same for views of a tensor."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import math

import pytest
import torch

from msprobe_collector.record.statistics import measure


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(3_000_000,), (1733, 1731), (1, 1 << 18)])
def test_norms_of_long_tensors_do_not_lose_small_squares(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    tensor = torch.rand(shape).to(dtype)
    wanted = torch.sqrt((tensor.double() ** 2).sum()).item()
    for turned in (tensor, tensor.T):
        norm = measure(turned).values[3]  # type: ignore[union-attr]
        assert norm == pytest.approx(wanted, rel=2e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [1000, 3072, 1 << 16, (1 << 17) - 1, 1 << 18])
def test_norms_of_equal_numbers_are_those_of_their_sum(size: int, dtype: torch.dtype) -> None:
    number = torch.tensor(0.00125).to(dtype)
    wanted = abs(number.item()) * math.sqrt(size)
    whole = torch.full((size,), number.item(), dtype=dtype)
    turned = torch.full((size // 4, 4), number.item(), dtype=dtype).t()
    for tensor in (number.expand(size), whole, turned):
        norm = measure(tensor).values[3]  # type: ignore[union-attr]
        assert norm == pytest.approx(wanted * math.sqrt(tensor.numel() / size), rel=5e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(3, 5, 2), (40, 5, 7), (300, 40, 10), (300, 40, 20)])
def test_a_transposed_view_has_the_statistics_of_its_tensor(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    tensor = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    turned = tensor.permute(2, 0, 1)
    assert not turned.is_contiguous()
    assert measure(turned) == measure(tensor)  # to the last digit: they tell who made it
