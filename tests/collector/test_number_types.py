"""Tensors of types that torch can hardly compute with."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from msprobe_collector.record.statistics import Measured, measure
from tests.collector.recording import record

DTYPES = [torch.uint16, torch.uint32, torch.uint64]
if hasattr(torch, "float8_e8m0fnu"):  # since torch 2.7
    DTYPES.append(torch.float8_e8m0fnu)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_no_type_of_numbers_costs_a_call_its_record(
    dtype: torch.dtype, task: str, tmp_path: Path
) -> None:
    given = torch.arange(240, 256, dtype=torch.uint8).view(dtype)
    if dtype.is_floating_point:
        given = torch.arange(1, 17, dtype=torch.uint8).view(dtype)

    class Taking(nn.Module):
        def forward(self, x: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
            return x * numbers.numel()

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Taking()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.inner(x, given)
            return result

    model = Outer()
    dump = record(tmp_path, lambda: model(torch.ones(2)), model, task=task)
    [_, item] = dump.data["Module.inner.Taking.forward.0"]["input_args"]
    values = given.float().numpy() if dtype.is_floating_point else given.numpy()
    values = values.astype(np.float64)
    wanted = (values.max(), values.min(), values.mean(), np.sqrt((values**2).sum()))
    found = [item[key] for key in ("Max", "Min", "Mean", "Norm")]
    assert found == pytest.approx(wanted, rel=2e-5)


def test_the_widest_integers_are_exact() -> None:
    """Neither half of their range, nor a number that no float64 holds, is taken for another."""
    given = torch.tensor([[2**64 - 1, 3], [2**63, 2**53 + 1]], dtype=torch.uint64)
    found = measure(given.t())
    assert isinstance(found, Measured)
    values = found.values
    assert values[:2] == (2**64 - 1, 3.0)
    exact = given.flatten().tolist()
    assert values[2:] == pytest.approx((sum(exact) / 4, math.sqrt(sum(one**2 for one in exact))))
    single = measure(given[1, 1])
    assert isinstance(single, Measured)
    assert single.values == (2**53 + 1,) * 4
