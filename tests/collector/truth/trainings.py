"""Ways to train in which tensors change without telling anyone."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from torch import nn

from tests.collector.models import loss_of

Window = Callable[[], AbstractContextManager[object]]
Training = Callable[[nn.Module, torch.Tensor, Window], None]
STEPS = 2


def plain(model: nn.Module, data: torch.Tensor, window: Window) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        with window():
            optimizer.zero_grad()
            loss_of(model, data).backward()
            optimizer.step()
            loss_of(model, data)


def mixed_precision(model: nn.Module, data: torch.Tensor, window: Window) -> None:
    """Gradients are unscaled in place, behind the version counter."""
    device = data.device.type
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler(device, init_scale=2.0**10)
    for _ in range(STEPS):
        with window():
            optimizer.zero_grad()
            with torch.autocast(device, dtype=torch.bfloat16):
                loss = loss_of(model, data)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            loss_of(model, data)


def accumulation(model: nn.Module, data: torch.Tensor, window: Window) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        with window():
            optimizer.zero_grad()
            for _micro in range(3):
                (loss_of(model, data) / 3).backward()
            optimizer.step()
            loss_of(model, data)


def fused_optimizer(model: nn.Module, data: torch.Tensor, window: Window) -> None:
    """Weights are written by one kernel, and once more through an alias."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)
    for _ in range(STEPS):
        with window():
            for _repeat in range(2):
                optimizer.zero_grad()
                loss_of(model, data).backward()
                optimizer.step()
            for parameter in model.parameters():
                if parameter.is_cpu:
                    parameter.detach().numpy()[...] *= 0.5
                else:
                    torch.utils.dlpack.from_dlpack(parameter.detach()).mul_(0.5)
            loss_of(model, data)


TRAININGS: dict[str, Training] = {
    "plain": plain,
    "mixed precision": mixed_precision,
    "accumulation": accumulation,
    "fused optimizer": fused_optimizer,
}
