"""What an optimizer is about to use, and what it has kept when it is done."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn


def names_in(
    optimizer: torch.optim.Optimizer, parameters: dict[nn.Parameter, str]
) -> dict[torch.Tensor, str]:
    """The name of each tensor that an optimizer changes.

    Megatron says which parameter a copy in float32 belongs to. Other copies, such as the flat
    ones of DeepSpeed, have the number of their group and their place in it.
    """
    copies = {}
    for parameter, name in parameters.items():
        main = getattr(parameter, "main_param", None)
        if isinstance(main, torch.Tensor):
            copies[main] = name
    found = {}
    for number, group in enumerate(optimizer.param_groups):
        for place, tensor in enumerate(group["params"]):
            own = parameters.get(tensor, copies.get(tensor))
            found[tensor] = own or f"group{number}.{place}"
    return found


def gradients(
    changed: dict[torch.Tensor, str], parameters: dict[nn.Parameter, str]
) -> Iterator[tuple[str, torch.Tensor]]:
    """The gradients that an optimizer is about to use.

    Where it changes copies, those of the copies; where they have none, the model's own.
    """
    names = set()
    for tensor, name in changed.items():
        gradient = _gradient_of(tensor)
        if gradient is not None:
            names.add(name)
            yield name, gradient
    if not any(one in parameters for one in changed):
        for parameter, name in parameters.items():
            gradient = None if name in names else _gradient_of(parameter)
            if gradient is not None:
                yield name, gradient


def _gradient_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """As it is, a shard still wrapped: nothing may be called on it here."""
    main = getattr(tensor, "main_grad", None)
    return main if isinstance(main, torch.Tensor) else tensor.grad


def states(
    optimizer: torch.optim.Optimizer, changed: dict[torch.Tensor, str]
) -> Iterator[tuple[str, torch.Tensor]]:
    """What it keeps of each parameter, without what is one number for all of it."""
    for tensor, name in changed.items():
        for key, value in optimizer.state.get(tensor, {}).items():
            is_tensor = isinstance(value, torch.Tensor) and key != "step"
            if is_tensor and (value.numel() > 1 or tensor.numel() == 1):
                yield f"{name}:{key}", value


def learning_rates(optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, float]]:
    """That of each group of parameters."""
    for number, group in enumerate(optimizer.param_groups):
        rate: Any = group.get("lr")
        if isinstance(rate, torch.Tensor):
            rate = rate.item()
        if isinstance(rate, (int, float)):
            yield f"group{number}", float(rate)
