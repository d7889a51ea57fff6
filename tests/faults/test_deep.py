"""Deep models in bfloat16: what rounding may have done long before excuses no wrong gradient."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from msprobe_builder.database.read.verdict import Verdict
from tests.collector.recording import record
from tests.faults.judging import verdict_on

WIDTH, LAYERS = 128, 8


class _Bent(torch.autograd.Function):
    """The identity, whose gradient is taken ``factor`` times."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: float) -> torch.Tensor:
        ctx.factor = factor
        return x * 1.0

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grad * ctx.factor, None


class _Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, factor: float | None) -> torch.Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        y = self.down(F.silu(self.up(wide.to(x.dtype) * self.weight)))
        return x + (y if factor is None else _Bent.apply(y, factor))


class _Deep(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_Layer() for _ in range(LAYERS))
        self.last = nn.Linear(WIDTH, 50)
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number, layer in enumerate(self.layers):
            x = layer(x, self.factor if number == 2 else None)
        return self.last(x)


def _run(folder: Path, factor: float, dtype: torch.dtype) -> Path:
    torch.manual_seed(0)
    model = _Deep(factor).to(dtype)
    batches = [torch.randn(128, WIDTH).to(dtype) for _ in range(2)]
    labels = torch.randint(0, 50, (128,))

    def train() -> None:
        for data in batches:
            F.cross_entropy(model(data).float(), labels).backward()

    return record(folder, train, model).directory


def _judged(folder: Path, factor: float) -> Verdict:
    npu = _run(folder / "npu", factor, torch.bfloat16)
    bench = _run(folder / "bench", 1.0, torch.float32)
    return verdict_on(npu, bench, folder / "out")


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_wrong_gradient_deep_inside_is_a_strong_suspect(factor: float, tmp_path: Path) -> None:
    first = _judged(tmp_path, factor).suspects[0]
    assert first.strength == "strong"
    assert "in the reference 1.0" in first.evidence
    assert "test_deep.py" in str(first.source)


def test_rounding_alone_is_none(tmp_path: Path) -> None:
    verdict = _judged(tmp_path, 1.0)
    assert (verdict.conclusion, verdict.suspects) == ("clean", ())
