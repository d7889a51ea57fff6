"""Two networks with an optimizer each, trained in turn: gradients that cancel, weights that change.

The biases in front of normalisations get gradients that are rounding alone, which Adam turns into
whole steps; the judging network is updated and then called again within one step; gradients of
several passes are summed where no call is recorded.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from msprobe_collector import PrecisionDebugger
from tests.collector.recording import write_config
from tests.faults.noise import RelativeNoise

STEPS = 2


@dataclass(frozen=True)
class Play:
    """How the two are trained; the default is right."""

    rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.95)
    clip: float = 0.5
    invented: float = 0.0  # label of invented pictures
    weight: float = 1.0  # of the inventor's loss
    foreach: bool = False
    noise: float = 0.0
    half: bool = False
    autocast: bool = False
    reversed: bool = False  # samples of a batch in another order


class Opponents(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.inventor = nn.Sequential(
            nn.Linear(12, 2 * width * 16),
            nn.Unflatten(1, (2 * width, 4, 4)),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.ConvTranspose2d(width, 3, 4, 2, 1),
            nn.Tanh(),
        )
        self.judge = nn.Sequential(
            nn.Conv2d(3, width, 4, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(width, 2 * width, 4, 2, 1),
            nn.BatchNorm2d(2 * width),
            nn.LeakyReLU(0.2),
            nn.Flatten(),
            nn.Linear(2 * width * 16, 1),
        )


def train(folder: Path, play: Play) -> Path:
    """Record two steps of both, each of two passes; returns the dump."""
    torch.manual_seed(3)
    model = Opponents()
    if play.half:
        model = model.to(torch.bfloat16)
    judging, inventing = (
        torch.optim.AdamW(one.parameters(), play.rate, play.betas, foreach=play.foreach)
        for one in (model.judge, model.inventor)
    )
    random = torch.Generator().manual_seed(11)
    debugger = PrecisionDebugger(config_path=write_config(folder, level="mix"))
    noise: Any = RelativeNoise(play.noise, seed=1) if play.noise else contextlib.nullcontext()
    for _ in range(STEPS):
        batches = [
            (
                torch.rand(4, 3, 16, 16, generator=random) * 2 - 1,
                torch.randn(4, 12, generator=random),
            )
            for _ in range(2)
        ]
        debugger.start(model)
        with noise:
            for pictures, _ in batches:
                judged = _judged(model, play, _given(pictures, play), 1.0)
                judged.backward()
            for _, seeds in batches:
                found = _invented(model, play, _given(seeds, play)).detach()
                _judged(model, play, found, play.invented).backward()
            nn.utils.clip_grad_norm_(model.judge.parameters(), play.clip)
            judging.step()
            inventing.zero_grad()
            for _, seeds in batches:
                found = _invented(model, play, _given(seeds, play))
                (_judged(model, play, found, 1.0) * play.weight).backward()
            inventing.step()
            judging.zero_grad()
        debugger.stop()
        debugger.step()
    debugger.close()
    return folder / "dump"


def _given(data: torch.Tensor, play: Play) -> torch.Tensor:
    data = data.flip(0) if play.reversed else data
    return data.bfloat16() if play.half else data


def _invented(model: Opponents, play: Play, seeds: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16, enabled=play.autocast):
        return model.inventor(seeds)


def _judged(model: Opponents, play: Play, pictures: torch.Tensor, label: float) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16, enabled=play.autocast):
        told = model.judge(pictures).float()
    return F.binary_cross_entropy_with_logits(told, torch.full_like(told, label))
