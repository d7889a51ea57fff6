"""What modules put out, and what gradients are as backward leaves them."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from msprobe_collector.unseen import unseen

Taken = Callable[[str, str, torch.Tensor, bool], None]  # kind, name, tensor, whether it grew


class Hooks:
    """Installed from the beginning to :meth:`remove`; ``take`` is given what they see.

    They look at nothing while ``is_open`` says no.
    """

    def __init__(
        self, take: Taken, fail: Callable[[Exception], None], is_open: Callable[[], bool]
    ) -> None:
        self._take, self._fail, self._is_open = take, fail, is_open
        self._handles: list[Any] = []
        self._hooked: set[int] = set()
        self._grown: set[str] = set()  # names of gradients that backward adds to

    def follow_outputs(self, module: nn.Module, name: str) -> None:
        """Take what the module puts out in training."""

        def after(module: nn.Module, _given: Any, output: Any) -> None:
            # What a checkpoint runs again in backward has been taken already.
            if module.training and not _is_backward() and not torch.compiler.is_compiling():
                self._guarded(lambda: self._take_all("activation", name, output))

        self._handles.append(module.register_forward_hook(after))

    def follow_inputs(self, module: nn.Module, name: str) -> None:
        """Take what the module is given in training."""

        def before(module: nn.Module, args: Any, kwargs: Any) -> None:
            if module.training and not _is_backward() and not torch.compiler.is_compiling():
                self._guarded(lambda: self._take_all("input", name, (args, kwargs)))

        self._handles.append(module.register_forward_pre_hook(before, with_kwargs=True))

    def follow_output_gradients(self, module: nn.Module, name: str) -> None:
        """Take the gradients of what the module puts out, as backward brings them."""

        def after(module: nn.Module, _given: Any, output: Any) -> None:
            if torch.compiler.is_compiling() or not (module.training and self._is_open()):
                return
            for label, tensor in _named(name, output):
                if tensor.grad_fn is not None:  # a tensor is not marked, its node is
                    arrive = partial(self._arrive, label, tensor.output_nr)
                    tensor.grad_fn.register_prehook(arrive)

        self._handles.append(module.register_forward_hook(after))

    def _arrive(self, name: str, number: int, gradients: Sequence[torch.Tensor | None]) -> None:
        gradient = gradients[number] if number < len(gradients) else None
        if gradient is not None and self._handles:
            self._guarded(lambda: self._take("activation_gradient", name, gradient, False))

    def follow_gradients(self, module: nn.Module, names: dict[str, str]) -> None:
        """Take gradients of the module's own parameters, by attribute, as backward makes them.

        A sharded module has its whole parameters, which backward reaches, only while it runs.
        """

        def hook_all(*_: Any) -> None:
            if torch.compiler.is_compiling():
                return
            for key, name in names.items():
                parameter = module._parameters.get(key)
                if parameter is not None:
                    self._hook(parameter, name)

        hook_all()
        is_sharded = any(_is_sharded(module._parameters.get(key)) for key in names)
        if is_sharded:
            self._handles.append(module.register_forward_pre_hook(hook_all))

    def remove(self) -> None:
        """Leave nothing installed."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._hooked.clear()
        self._grown.clear()

    def _hook(self, parameter: torch.Tensor, name: str) -> None:
        is_leaf = parameter.requires_grad and parameter.is_leaf and not _is_sharded(parameter)
        if not is_leaf or id(parameter) in self._hooked:
            return

        def accumulated(own: torch.Tensor) -> None:
            if not torch.compiler.is_compiling():
                self._guarded(lambda: self._take_gradient(name, own))

        def accumulates(_gradient: torch.Tensor) -> None:
            own = itself()
            if own is not None and own.grad is not None:
                self._grown.add(name)
            else:
                self._grown.discard(name)

        itself = weakref.ref(parameter)  # which would hold itself otherwise
        self._hooked.add(id(parameter))
        self._handles.append(parameter.register_hook(accumulates))
        self._handles.append(parameter.register_post_accumulate_grad_hook(accumulated))

    def _take_all(self, kind: str, name: str, value: Any) -> None:
        for label, tensor in _named(name, value):
            self._take(kind, label, tensor, False)

    def _take_gradient(self, name: str, parameter: torch.Tensor) -> None:
        """One that holds what earlier micro-batches brought, or that of this one alone.

        Where each is reduced by itself, as in ZeRO 2, backward finds no gradient to add to.
        """
        gradient = _accumulated(parameter)
        if gradient is not None:
            has_grown = name in self._grown or gradient is not parameter.grad
            self._take("local_gradient", name, gradient, has_grown)

    def _guarded(self, run: Callable[[], None]) -> None:
        if not self._is_open():
            return
        try:
            with torch.no_grad(), unseen():
                run()
        except Exception as error:  # the training goes on
            self._fail(error)


def _named(name: str, value: Any) -> list[tuple[str, torch.Tensor]]:
    """The floating-point tensors in a value; of several each by its place."""
    tensors = [one for one in tree_leaves(value) if isinstance(one, torch.Tensor)]
    tensors = [one for one in tensors if one.is_floating_point()]
    labels = [name] if len(tensors) == 1 else [f"{name}:{n}" for n in range(len(tensors))]
    return list(zip(labels, tensors, strict=True))


def _accumulated(parameter: torch.Tensor) -> torch.Tensor | None:
    """Megatron adds to ``main_grad`` after this, unless the backward pass has done so."""
    gradient, main = parameter.grad, getattr(parameter, "main_grad", None)
    if not isinstance(main, torch.Tensor) or main.shape != parameter.shape:
        return gradient
    if gradient is None or getattr(parameter, "grad_added_to_main_grad", False):
        return main
    return main + gradient


def _is_sharded(parameter: Any) -> bool:
    return hasattr(parameter, "to_local")


def _is_backward() -> bool:
    return torch._C._current_graph_task_id() != -1
