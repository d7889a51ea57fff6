"""``parameters_grad``: the gradient that each backward pass brings to a module's parameters.

The established name has no number and stands for the last pass. Earlier passes of a step
(micro-steps) get the number of the module's backward call appended, so nothing is lost.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import torch
from torch.utils.hooks import RemovableHandle

from msprobe_collector.record.plain_values import Item
from msprobe_collector.unseen import unseen

Describe: TypeAlias = Callable[[str, torch.Tensor, str], "Item | None"]
Write: TypeAlias = Callable[[str, "dict[str, Item]"], None]


class ParameterGradients:
    """Hooks on parameters from the first start of a step to its end."""

    def __init__(self, describe: Describe, write: Write, write_latest: Write) -> None:
        self._describe = describe
        self._write = write
        self._write_latest = write_latest
        self._handles: list[RemovableHandle] = []
        self._watched: dict[tuple[str, str], _Watched] = {}
        self._seen: set[tuple[str, str]] = set()
        self._passes: dict[str, int] = {}  # of each module, in this step
        self._arriving: dict[str, dict[str, Item]] = {}
        self._latest: dict[str, tuple[int, dict[str, Item]]] = {}
        self._backward_number: dict[str, int] = {}
        self._kept: set[str] = set()

    def watch(self, stem: str, module: torch.nn.Module) -> None:
        for name, parameter in module.named_parameters(recurse=False):
            known = self._watched.get((stem, name))
            if is_lazy(parameter) or not parameter.requires_grad:
                continue
            if known is not None and known.parameter is parameter:
                continue
            watched = _Watched(parameter, _identity(parameter.grad))
            self._watched[stem, name] = watched
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
            with unseen():
                self._seen.add((stem, name))
                self._take(stem, name, gradient)

    def _take(self, stem: str, name: str, gradient: torch.Tensor) -> None:
        # Files of later passes say which pass they belong to: nothing is overwritten.
        number = self._passes.get(stem, 0)
        where = f"{number}.{name}" if number else name
        item = self._describe(f"{stem}.parameters_grad", gradient, where)
        if item is not None:
            self._arriving.setdefault(stem, {})[name] = item

    def end_pass(self) -> None:
        """A backward pass is over: its gradients become the latest of their modules."""
        arrived, self._arriving = self._arriving, {}
        for stem, unordered in arrived.items():
            gradients = self._in_order(stem, unordered)
            before = self._latest.pop(stem, None)
            if before is not None:
                self._write(f"{stem}.parameters_grad.{before[0]}", before[1])
            self._latest[stem] = (self._backward_number.get(stem, 0), gradients)
            self._passes[stem] = self._passes.get(stem, 0) + 1

    def _in_order(self, stem: str, gradients: dict[str, Item]) -> dict[str, Item]:
        """As the module names its parameters, not as the engine reached them."""
        if len(gradients) < 2:
            return gradients
        names = [name for owner, name in self._watched if owner == stem and name in gradients]
        return {**{name: gradients[name] for name in names}, **gradients}

    def settle(self) -> None:
        """Hand out the last pass; take ``.grad`` where a framework set it without autograd."""
        self.end_pass()
        for (stem, name), watched in self._watched.items():
            gradient = watched.parameter.grad
            missed = (stem, name) not in self._seen and stem in self._kept
            if missed and gradient is not None and _identity(gradient) != watched.gradient:
                watched.gradient = _identity(gradient)
                with unseen():
                    self._take(stem, name, gradient)
        for stem, gradients in self._arriving.items():
            latest = self._latest.setdefault(stem, (0, {}))
            latest[1].update(gradients)
        self._arriving = {}
        for stem, (_, gradients) in self._latest.items():
            self._write_latest(f"{stem}.parameters_grad", gradients)

    def release(self) -> None:
        """Take the hooks off; what was recorded is kept until the step is over."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._watched = {}
        self._seen.clear()

    def end_step(self) -> None:
        self.release()
        self._latest = {}
        self._passes.clear()
        self._backward_number.clear()
        self._kept.clear()


class _Watched:
    """A parameter and the gradient it had when watching began."""

    __slots__ = ("gradient", "parameter")

    def __init__(self, parameter: torch.nn.Parameter, gradient: tuple[int, int] | None) -> None:
        self.parameter = parameter
        self.gradient = gradient


def is_lazy(parameter: torch.nn.Parameter) -> bool:
    """Whether the first forward call has yet to give the parameter its shape."""
    return torch.nn.parameter.is_lazy(parameter)


def _identity(gradient: torch.Tensor | None) -> tuple[int, int] | None:
    return None if gradient is None else (id(gradient), gradient._version)
