"""Losses that are multiplied before they are derived, as training in float16 needs it."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from msprobe_builder.database.read.verdict import Verdict
from tests.collector.recording import record
from tests.faults.judging import verdict_on


class _Bent(torch.autograd.Function):
    """The identity, whose gradient is taken ``factor`` times; it works that out with a call."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: float) -> torch.Tensor:
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return torch.mul(grad, ctx.factor), None


class _Layers(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.first, self.middle = nn.Linear(16, 32), nn.Linear(32, 32)
        self.last = nn.Linear(32, 1)
        self.factor = factor

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.first(data))
        hidden = torch.tanh(self.middle(_Bent.apply(hidden, self.factor)))
        return self.last(hidden).square().mean()


def _run(folder: Path, half: torch.dtype | None, scale: float, factor: float, level: str) -> Path:
    torch.manual_seed(3)
    model = _Layers(factor)
    batches = [torch.randn(24, 16) for _ in range(2)]

    def train() -> None:
        scaler = torch.amp.GradScaler("cpu", init_scale=scale, enabled=scale != 1.0)
        for data in batches:
            with torch.autocast("cpu", half or torch.bfloat16, enabled=half is not None):
                loss = model(data)
            scaler.scale(loss).backward()

    return record(folder, train, model, level=level).directory


def _judged(
    folder: Path,
    *,
    scales: tuple[float, float],
    halves: tuple[torch.dtype | None, torch.dtype | None] = (torch.float16, None),
    factor: float = 1.0,
    level: str = "mix",
) -> Verdict:
    npu = _run(folder / "npu", halves[0], scales[0], factor, level)
    bench = _run(folder / "bench", halves[1], scales[1], 1.0, level)
    return verdict_on(npu, bench, folder / "out")


@pytest.mark.parametrize("level", ["mix", "L0"])
@pytest.mark.parametrize(
    ("scales", "halves", "told"),
    [
        ((1024.0, 1.0), (torch.float16, None), "This run multiplies its loss by 1,024 times"),
        (
            (1024.0, 8192.0),
            (torch.float16, torch.float16),
            "The reference multiplies its loss by 8 times",
        ),
        ((1.0, 256.0), (None, torch.float16), "The reference multiplies its loss by 256 times"),
    ],
)
def test_scaling_the_loss_is_no_fault(
    scales: tuple[float, float],
    halves: tuple[torch.dtype | None, torch.dtype | None],
    told: str,
    level: str,
    tmp_path: Path,
) -> None:
    verdict = _judged(tmp_path, scales=scales, halves=halves, level=level)
    assert (verdict.conclusion, verdict.suspects) == ("clean", ())
    assert told in verdict.sentence


def test_a_wrong_gradient_is_found_behind_it(tmp_path: Path) -> None:
    verdict = _judged(tmp_path, scales=(1024.0, 1.0), factor=0.5)
    assert verdict.conclusion == "fault"
    assert "mul" in verdict.suspects[0].node or "_Bent" in verdict.suspects[0].node
    assert verdict.suspects[0].strength == "strong"
    assert not any("1024" in one.evidence for one in verdict.suspects)
    assert "1,024 times what the reference does" in verdict.suspects[0].evidence


@pytest.mark.parametrize(
    ("scales", "halves"),
    [
        ((1024.0, 1.0), (None, None)),  # nothing here needs it
        ((1000.0, 1.0), (torch.float16, None)),  # no power of two: nobody scales so
    ],
)
def test_another_loss_is_told(
    scales: tuple[float, float],
    halves: tuple[torch.dtype | None, torch.dtype | None],
    tmp_path: Path,
) -> None:
    verdict = _judged(tmp_path, scales=scales, halves=halves)
    assert verdict.conclusion != "clean"
    assert "multiplies its loss" not in verdict.sentence
