"""What plain hooks see of a training that nobody records: clones of every tensor."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

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


class Step(NamedTuple):
    """By name of the module call its tensors, by module the gradients of its parameters."""

    calls: dict[str, dict[str, list[torch.Tensor]]]
    gradients: dict[str, dict[str, torch.Tensor]]


def copy_of(tensor: torch.Tensor) -> torch.Tensor:
    """This process's part of a tensor as it is now; it remembers the shape of the whole."""
    whole: Any = tensor.detach()
    copy: Any = (whole.to_local() if hasattr(whole, "to_local") else whole).clone()
    copy.whole_shape = list(whole.shape)
    return copy


class Oracle:
    """Clones by name of the call and place in it, for one step at a time."""

    def __init__(self, model: nn.Module) -> None:
        self.seen: dict[str, dict[str, list[torch.Tensor]]] = {}
        self._calls: dict[str, int] = {}
        self.gradients: dict[str, dict[str, torch.Tensor]] = {}  # of the last pass
        for path, module in model.named_modules():
            if module is not model:
                kind = type(module).__name__.removeprefix("FSDP")  # which sharding puts there
                stem = f"Module.{path}.{kind}.forward"
                module.register_forward_pre_hook(self._before(stem), with_kwargs=True)
                module.register_forward_hook(self._after(stem), prepend=True)
                for name, parameter in module.named_parameters(recurse=False):
                    if parameter.requires_grad:
                        parameter.register_hook(self._gradient(f"Module.{path}.{kind}", name))

    def end_step(self) -> Step:
        """What the step held; the next one begins."""
        step = Step(self.seen, self.gradients)
        self.seen, self.gradients, self._calls = {}, {}, {}
        return step

    def _gradient(self, stem: str, name: str) -> Any:
        def hook(gradient: torch.Tensor) -> None:
            self.gradients.setdefault(stem, {})[name] = copy_of(gradient)

        return hook

    def _before(self, stem: str) -> Any:
        def hook(_module: nn.Module, args: Any, kwargs: Any) -> None:
            number = self._calls.get(stem, 0)
            self._calls[stem] = number + 1
            inputs = [copy_of(tensor) for tensor in flat((args, kwargs))]
            self.seen[f"{stem}.{number}"] = {"input": inputs}

        return hook

    def _after(self, stem: str) -> Any:
        def hook(module: nn.Module, _args: Any, output: Any) -> None:
            # No module of these models calls itself, so the last call is the one that returns.
            entry = self.seen[f"{stem}.{self._calls[stem] - 1}"]
            outputs = list(flat(output))
            entry["output"] = [copy_of(tensor) for tensor in outputs]
            entry["parameters"] = [copy_of(p) for p in module.parameters(recurse=False)]
            arrived = entry["gradients"] = []
            for tensor in outputs[:1]:  # of more, a write to one may concern the others
                if tensor.requires_grad and not getattr(module, "inplace", False):
                    tensor.register_hook(lambda gradient: arrived.append(copy_of(gradient)))

        return hook
