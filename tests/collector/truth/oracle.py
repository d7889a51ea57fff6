"""What plain hooks see of a training that nobody records: clones of every tensor."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn


def flat(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from flat(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from flat(part)


class Oracle:
    """Clones by name of the call and place in it, for one step at a time."""

    def __init__(self, model: nn.Module) -> None:
        self.seen: dict[str, dict[str, list[torch.Tensor]]] = {}
        self._calls: dict[str, int] = {}
        for path, module in model.named_modules():
            if module is not model:
                stem = f"Module.{path}.{type(module).__name__}.forward"
                module.register_forward_pre_hook(self._before(stem), with_kwargs=True)
                module.register_forward_hook(self._after(stem))

    def end_step(self) -> dict[str, dict[str, list[torch.Tensor]]]:
        """What the step held; the next one begins."""
        seen, self.seen, self._calls = self.seen, {}, {}
        return seen

    def _before(self, stem: str) -> Any:
        def hook(_module: nn.Module, args: Any, kwargs: Any) -> None:
            number = self._calls.get(stem, 0)
            self._calls[stem] = number + 1
            inputs = [tensor.detach().clone() for tensor in flat((args, kwargs))]
            self.seen[f"{stem}.{number}"] = {"input": inputs}

        return hook

    def _after(self, stem: str) -> Any:
        def hook(module: nn.Module, _args: Any, output: Any) -> None:
            # No module of these models calls itself, so the last call is the one that returns.
            entry = self.seen[f"{stem}.{self._calls[stem] - 1}"]
            entry["output"] = [tensor.detach().clone() for tensor in flat(output)]
            entry["parameters"] = [p.detach().clone() for p in module.parameters(recurse=False)]

        return hook
