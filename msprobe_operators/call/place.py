"""Where in the model a call is made: the enclosing modules, and forward, backward or optimizer.

Modules are followed by forward hooks alone. A call made while gradients are computed belongs to
the module whose forward call made the autograd node that runs: both carry the same sequence
number. Backward hooks would change the graph, so there are none.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch._C._autograd import _get_sequence_nr

# Nodes remembered between forward and backward; the oldest are forgotten beyond it.
_MOST_NODES = 1 << 20


@dataclass(eq=False)
class ModuleInfo:
    """A module that is being run: its class, its path in the model and the module around it."""

    name: str
    father: ModuleInfo | None = None
    is_leaf: bool = False
    is_forward: bool = True
    path: str = ""

    @property
    def classes(self) -> str:
        """``Model/Block/Linear``, from the outermost module."""
        above = "" if self.father is None else self.father.classes + "/"
        return above + self.name


class Place(NamedTuple):
    """Where a call is made; ``classes`` and ``path`` are empty outside tracked modules."""

    classes: str
    path: str
    direction: str  # forward, backward or optimizer

    def full_name(self, operator: str) -> str:
        """``Model/Linear/torch.ops.aten.addmm(forward)``."""
        above = f"{self.classes}/" if self.classes else ""
        return f"{above}{operator}({self.direction})"


class _State(threading.local):
    def __init__(self) -> None:
        self.open: list[ModuleInfo] = []


@dataclass
class _Nodes:
    """Which module made an autograd node, by sequence number, in order of making."""

    of: dict[int, ModuleInfo | None] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


_state = _State()
_nodes = _Nodes()
_tracked: WeakKeyDictionary[nn.Module, list[Any]] = WeakKeyDictionary()
_optimizing = threading.local()


def open_module_tracker(module: nn.Module) -> None:
    """Follow the forward calls of a model and all modules in it; once is enough."""
    for name, child in module.named_modules():
        if child in _tracked:
            continue
        leaf = next(child.children(), None) is None
        before = child.register_forward_pre_hook(_entering(name, leaf))
        after = child.register_forward_hook(_leave, always_call=True)
        _tracked[child] = [before, after]


def close_module_tracker(module: nn.Module) -> None:
    """Take the hooks of ``open_module_tracker`` off again."""
    for child in module.modules():
        for handle in _tracked.pop(child, []):
            handle.remove()


def _entering(path: str, leaf: bool) -> Any:
    def enter(module: nn.Module, _: Any) -> None:
        father = _state.open[-1] if _state.open else None
        _state.open.append(ModuleInfo(type(module).__name__, father, leaf, path=path))

    return enter


def _leave(module: nn.Module, _: Any, __: Any) -> None:
    # An exception may have skipped the ends of modules inside this one.
    while _state.open:
        if _state.open.pop().name == type(module).__name__:
            break


def here() -> Place:
    """The place of the call that is being dispatched; remembers it for its backward."""
    node: Any = torch._C._current_autograd_node()
    inside = _state.open[-1] if _state.open else None
    if node is not None and inside is None:
        made_by = _nodes.of.get(node._sequence_nr())
        return _place(made_by, "backward")
    if inside is None and getattr(_optimizing, "inside", False):
        return Place("", "", "optimizer")
    number = _get_sequence_nr() - 1
    # Calls that make no node see the number of the one before, which is known already.
    if number >= 0 and inside is not None and number not in _nodes.of:
        with _nodes.lock:
            _nodes.of[number] = inside
            while len(_nodes.of) > _MOST_NODES:
                del _nodes.of[next(iter(_nodes.of))]
    return _place(inside, "forward")


def forget_nodes() -> None:
    """Forget which modules made which nodes: at the end of a step nothing refers to them."""
    with _nodes.lock:
        _nodes.of.clear()


def _place(module: ModuleInfo | None, direction: str) -> Place:
    if module is None:
        return Place("", "", direction)
    return Place(module.classes, module.path, direction)


@contextmanager
def optimizer_followed() -> Iterator[None]:
    """Know inside which calls are made by an optimizer's step."""
    from torch.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )

    def begin(*_: Any) -> None:
        _optimizing.inside = True

    def end(*_: Any) -> None:
        _optimizing.inside = False

    handles = [register_optimizer_step_pre_hook(begin), register_optimizer_step_post_hook(end)]
    try:
        yield
    finally:
        end()
        for handle in handles:
            handle.remove()
