"""``parameters_grad``: the gradient that each backward pass brings to a module's parameters.

The established name has no number and stands for the last pass. Earlier passes of a step
(micro-steps) get the number of the module's backward call appended, so nothing is lost.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import torch
from torch.utils.hooks import RemovableHandle

from msprobe_collector.items import Item

Describe: TypeAlias = Callable[[str, torch.Tensor, str], "Item | None"]
Write: TypeAlias = Callable[[str, "dict[str, Item]"], None]


class ParameterGradients:
    """Hooks on parameters between start and stop."""

    def __init__(self, describe: Describe, write: Write) -> None:
        self._describe = describe
        self._write = write
        self._handles: list[RemovableHandle] = []
        self._watched: list[tuple[str, str, torch.nn.Parameter, Any]] = []
        self._seen: set[tuple[str, str]] = set()
        self._arriving: dict[str, dict[str, Item]] = {}
        self._latest: dict[str, tuple[int, dict[str, Item]]] = {}
        self._backward_number: dict[str, int] = {}
        self._kept: set[str] = set()

    def watch(self, stem: str, module: torch.nn.Module) -> None:
        for name, parameter in module.named_parameters(recurse=False):
            if not parameter.requires_grad:
                continue
            self._watched.append((stem, name, parameter, _identity(parameter.grad)))
            if parameter.is_leaf:
                hook = partial(self._arrive, stem, name)
                self._handles.append(parameter.register_hook(hook))

    def keep(self, stem: str) -> None:
        """A call of this module is recorded, so are its parameters."""
        self._kept.add(stem)

    def note_backward(self, backward_name: str) -> None:
        stem, _, number = backward_name.rpartition(".backward.")
        self._backward_number[stem] = int(number)

    def _arrive(self, stem: str, name: str, gradient: torch.Tensor) -> None:
        if stem in self._kept:
            with torch._C.DisableTorchFunction():
                self._seen.add((stem, name))
                self._take(stem, name, gradient)

    def _take(self, stem: str, name: str, gradient: torch.Tensor) -> None:
        item = self._describe(f"{stem}.parameters_grad", gradient, name)
        if item is not None:
            self._arriving.setdefault(stem, {})[name] = item

    def end_pass(self) -> None:
        """A backward pass is over: its gradients become the latest of their modules."""
        arrived, self._arriving = self._arriving, {}
        for stem, gradients in arrived.items():
            before = self._latest.pop(stem, None)
            if before is not None:
                self._write(f"{stem}.parameters_grad.{before[0]}", before[1])
            self._latest[stem] = (self._backward_number.get(stem, 0), gradients)

    def finish(self) -> None:
        """Write the last pass; take ``.grad`` where a framework set it without autograd."""
        self.end_pass()
        for stem, name, parameter, before in self._watched:
            unseen = (stem, name) not in self._seen and stem in self._kept
            if unseen and parameter.grad is not None and _identity(parameter.grad) != before:
                self._take(stem, name, parameter.grad)
        for stem, gradients in self._arriving.items():
            latest = self._latest.setdefault(stem, (0, {}))
            latest[1].update(gradients)
        self._arriving = {}
        for stem, (_, gradients) in self._latest.items():
            self._write(f"{stem}.parameters_grad", gradients)
        self._latest = {}
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._watched = []
        self._seen.clear()
        self._backward_number.clear()
        self._kept.clear()


def _identity(gradient: torch.Tensor | None) -> tuple[int, int] | None:
    return None if gradient is None else (id(gradient), gradient._version)
