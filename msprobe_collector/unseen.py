"""Tensor functions of our own, which nothing else may notice."""

from __future__ import annotations

import threading
from typing import Any

import torch


def _hidden_from() -> Any:
    """The keys of the dispatcher that lead to autograd and to modes."""
    before = torch._C._dispatch_tls_local_exclude_set()
    with torch._C._DisableTorchDispatch(), torch._C._AutoDispatchBelowAutograd():
        return torch._C._dispatch_tls_local_exclude_set() - before


_HIDDEN_FROM = _hidden_from()


class _Guards(threading.local):
    """The two guards of a thread: to make them costs more than to enter them again."""

    def __init__(self) -> None:
        self.entered = False
        self.functions: Any = torch._C.DisableTorchFunction()
        self.keys: Any = torch._C._ExcludeDispatchKeyGuard(_HIDDEN_FROM)


_guards = _Guards()


class unseen:  # noqa: N801
    """Run tensor functions that neither autograd nor any mode, ours included, can see."""

    __slots__ = ("_guards",)

    def __enter__(self) -> None:
        guards = _guards
        self._guards: _Guards | None = None
        if not guards.entered:  # inside another there is no need
            guards.functions.__enter__()
            guards.keys.__enter__()
            guards.entered = True
            self._guards = guards

    def __exit__(self, *_error: object) -> None:
        if self._guards is not None:
            become_visible()


def become_visible() -> None:
    """Leave :class:`unseen`; after an interrupt that came between its lines, too."""
    guards = _guards
    if guards.entered:
        guards.keys.__exit__(None, None, None)
        guards.functions.__exit__(None, None, None)
        guards.entered = False
