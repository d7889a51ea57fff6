"""What Cells are given and put out while gradients are wanted, and the gradients of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import mindspore
from mindspore import nn
from mindspore.common.api import _pynative_executor

from msprobe_collector.config.monitor import MonitorSettings
from msprobe_collector.mindspore.cells import named_cells

KINDS = ("input", "activation", "activation_gradient")
Taken = Callable[[str, str, Any], None]  # kind, name, tensor


def follow_cells(model: nn.Cell, settings: MonitorSettings, take: Taken) -> list[Any]:
    """Hook the Cells that ``settings`` name; the handles remove the hooks.

    ``take`` is given floating-point tensors that are not empty.
    """
    handles: list[Any] = []
    for path, cell in named_cells("", model):
        name = path.removeprefix(".")
        if settings.wants("input", name):
            hook = partial(_before, take, name)
            handles.append(cell.register_forward_pre_hook(hook, with_kwargs=True))
        if settings.wants("activation", name):
            handles.append(cell.register_forward_hook(partial(_after, take, name)))
        if settings.wants("activation_gradient", name):
            handles.append(cell.register_forward_hook(partial(_await_gradients, take, name)))
    return handles


def _before(take: Taken, name: str, _: nn.Cell, args: Any, kwargs: Any) -> None:
    _take_all(take, "input", name, (args, kwargs))


def _after(take: Taken, name: str, _: nn.Cell, __: Any, output: Any) -> None:
    _take_all(take, "activation", name, output)


def _take_all(take: Taken, kind: str, name: str, value: Any) -> None:
    if _pynative_executor.grad_flag():  # nobody trains by calls without gradients
        for label, tensor in _named(name, value):
            take(kind, label, tensor)


def _await_gradients(take: Taken, name: str, _: nn.Cell, __: Any, output: Any) -> None:
    for label, tensor in _named(name, output):
        if tensor._grad_node is not None:
            tensor.register_hook(partial(take, "activation_gradient", label))


def _named(name: str, value: Any) -> list[tuple[str, Any]]:
    """The floating-point tensors in a value; of several each by its place."""
    found = [one for one in _tensors(value) if one.is_floating_point() and one.size]
    labels = [name] if len(found) == 1 else [f"{name}:{place}" for place in range(len(found))]
    return list(zip(labels, found, strict=True))


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, mindspore.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _tensors(one)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
