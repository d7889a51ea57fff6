"""Faults that noise all over must not hide, and types that rounding passes through."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from msprobe_builder.database.read.verdict import Verdict
from tests.collector.recording import record
from tests.faults.noise import RelativeNoise
from tests.faults.optimizers import judged
from tests.faults.planting import fault, planted


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        (x,) = ctx.saved_tensors
        gate = torch.sigmoid(x)
        return grad * (gate if planted("slope", False, True) else gate * (1 + x * (1 - gate)))


class Deep(nn.Module):
    """So many layers that the noise of each adds up to many times that of one."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(24, 24) for _ in range(24))
        self.head = nn.Linear(24, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + torch.sin(3 * layer(x))
        return self.head(Swish.apply(x))


class Routed(nn.Module):
    """A router in single precision behind what is in half."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(24, 24)
        self.gate = nn.Linear(24, 6)
        self.values = nn.Linear(24, 6)
        self.head = nn.Linear(24, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.first(x))
        chosen = torch.softmax(3 * self.gate(x).float(), -1).topk(planted("count", 3, 2), -1)
        weights = chosen.values / (0.1 + chosen.values.sum(-1, keepdim=True))
        told = (weights * self.values(x).float().gather(1, chosen.indices)).sum(-1, keepdim=True)
        return self.head(x * told.to(x.dtype))


def _judged(folder: Path, make: type[nn.Module], wrong: str | None, way: str) -> Verdict:
    dumps: list[Path] = []
    for side, name in (("npu", wrong), ("bench", None)):
        torch.manual_seed(6)
        model = make()
        data = torch.randn(8, 24, generator=torch.Generator().manual_seed(7))
        noise: Any = contextlib.nullcontext()
        if side == "npu" and way == "noise":
            noise = RelativeNoise(1e-6, 8)
        if side == "npu" and way == "half":
            model, data = model.to(torch.bfloat16), data.to(torch.bfloat16)

        def step(model: nn.Module = model, data: torch.Tensor = data, noise: Any = noise) -> None:
            with noise:
                F.cross_entropy(model(data).float(), torch.arange(8) % 5).backward()

        with fault(name):
            record(folder / side, step, model)
        dumps.append(folder / side / "dump")
    return judged(dumps[0], dumps[1], folder / "out")


def test_a_wrong_gradient_is_found_in_a_deep_model_with_noise(tmp_path: Path) -> None:
    verdict = _judged(tmp_path, Deep, "slope", "noise")
    assert verdict.conclusion == "fault"
    assert verdict.suspects[0].node == "Torch.Swish.0.backward"


def test_a_deep_model_with_noise_alone_is_not_accused(tmp_path: Path) -> None:
    assert _judged(tmp_path, Deep, None, "noise").conclusion != "fault"


def test_another_count_of_a_cast_router_is_named(tmp_path: Path) -> None:
    verdict = _judged(tmp_path, Routed, "count", "half")
    assert verdict.conclusion == "fault"
    assert verdict.suspects[0].node == "Tensor.topk.0.forward"
