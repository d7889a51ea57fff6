"""What an optimizer keeps, and how fast it goes."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from msprobe_collector.optimizers.parts import Part


def states(
    optimizer: torch.optim.Optimizer, parts: Sequence[Part]
) -> Iterator[tuple[str, torch.Tensor]]:
    """What it keeps of each part, without what is one number for all of it."""
    for part in parts:
        whole = part.changed.numel()
        for key, value in optimizer.state.get(part.changed, {}).items():
            if not isinstance(value, torch.Tensor) or key == "step":
                continue
            is_like = value.numel() == whole if part.start is not None else value.numel() > 1
            if is_like or whole == 1:
                yield f"{part.name}:{key}", part.of(value)


def learning_rates(
    optimizer: torch.optim.Optimizer, numbers: Sequence[int]
) -> Iterator[tuple[str, float]]:
    """That of each group of parameters, which have these numbers."""
    for number, group in zip(numbers, optimizer.param_groups, strict=True):
        rate: Any = group.get("lr")
        if isinstance(rate, torch.Tensor):
            rate = rate.item()
        if isinstance(rate, (int, float)):
            yield f"group{number}", float(rate)
