"""Attention by one kernel in half precision against its single calls in float32: no fault."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from msprobe_builder import BuildConfig, build
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.verdict import read_verdict
from tests.collector.recording import record


class Attention(nn.Module):
    """Queries, keys and values of equal shapes, so that nothing but numbers tells them apart."""

    def __init__(self, *, fused: bool, scale: float) -> None:
        super().__init__()
        self.fused, self.scale = fused, scale
        self.given, self.out = nn.Linear(56, 168), nn.Linear(56, 56)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, c = x.shape
        q, k, v = (one.view(b, n, 7, -1).transpose(1, 2) for one in self.given(x).split(c, 2))
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, scale=self.scale)
        else:
            y = torch.softmax(q @ k.transpose(-1, -2) * self.scale, -1) @ v
        return x + self.out(y.transpose(1, 2).reshape(b, n, c))


@pytest.mark.parametrize(
    ("scale", "conclusion"), [(8**-0.5, "clean"), (2.0, "fault")], ids=["right", "wrong_scale"]
)
def test_keys_and_values_are_not_taken_for_each_other(
    scale: float, conclusion: str, tmp_path: Path
) -> None:
    for side, fused in (("npu", True), ("bench", False)):
        torch.manual_seed(3)
        layers = [Attention(fused=fused, scale=scale if fused else 8**-0.5) for _ in range(3)]
        model = nn.Sequential(*layers, nn.LayerNorm(56))
        x = torch.randn(4, 17, 56)
        if fused:
            model, x = model.bfloat16(), x.bfloat16()

        def step(model: nn.Module = model, x: torch.Tensor = x) -> None:
            model(x).float().square().mean().backward()

        record(tmp_path / side, step, model)
    config = BuildConfig(tmp_path / "npu" / "dump", tmp_path / "bench" / "dump")
    with opened(build(config, tmp_path / "out", workers=1).path) as connection:
        verdict = read_verdict(connection)
    assert verdict is not None
    assert verdict.conclusion == conclusion
    if conclusion == "fault":
        best = verdict.suspects[0]
        assert best.node == "Functional.scaled_dot_product_attention.0.forward"
