"""Tensor functions of our own, which nothing else may notice."""

from __future__ import annotations

import threading
from typing import Any

import torch


def _hidden_from() -> Any:
    """The keys of the dispatcher that lead to autograd and to modes, and to autocast.

    Under autocast a product of our own would be taken in half precision.
    """
    before = torch._C._dispatch_tls_local_exclude_set()
    with torch._C._DisableTorchDispatch(), torch._C._AutoDispatchBelowAutograd():
        hidden = torch._C._dispatch_tls_local_exclude_set() - before
    for name in dir(torch._C.DispatchKey):
        if name.startswith("Autocast"):
            hidden |= torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, name))
    return hidden


_HIDDEN_FROM = _hidden_from()


class _Guards(threading.local):
    """The two guards of a thread: to make them costs more than to enter them again."""

    def __init__(self) -> None:
        self.entered = False
        self.functions: Any = torch._C.DisableTorchFunction()
        self.keys: Any = torch._C._ExcludeDispatchKeyGuard(_HIDDEN_FROM)


_guards = _Guards()


class unseen:  # noqa: N801
    """Run tensor functions that neither autograd, nor autocast, nor any mode can see."""

    __slots__ = ("_is_outermost",)

    def __enter__(self) -> None:
        guards = _guards
        # Inside another there is no need, unless an interrupt came while that one was left.
        self._is_outermost = not guards.entered or torch._C._is_torch_function_enabled()
        if self._is_outermost:
            guards.entered = True
            try:
                guards.functions.__enter__()
                guards.keys.__enter__()
            except BaseException:
                become_visible()
                raise

    def __exit__(self, *_error: object) -> None:
        guards = _guards
        if self._is_outermost and guards.entered:  # as become_visible, which would take a call more
            guards.keys.__exit__(None, None, None)
            guards.functions.__exit__(None, None, None)
            guards.entered = False


def become_visible() -> None:
    """Leave :class:`unseen`; after an interrupt that came while it was left, too."""
    guards = _guards
    if guards.entered:
        guards.keys.__exit__(None, None, None)
        guards.functions.__exit__(None, None, None)
        guards.entered = False
