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


class _Depth(threading.local):
    entered = False


_depth = _Depth()


class unseen:  # noqa: N801
    """Run tensor functions that neither autograd nor any mode, ours included, can see."""

    __slots__ = ("_functions", "_keys")

    def __enter__(self) -> None:
        # Guards cost more than most of what they surround: inside another there is no need.
        self._keys: Any = None
        if not _depth.entered:
            self._functions: Any = torch._C.DisableTorchFunction()
            self._functions.__enter__()
            self._keys = torch._C._ExcludeDispatchKeyGuard(_HIDDEN_FROM)
            self._keys.__enter__()
            _depth.entered = True

    def __exit__(self, *_error: object) -> None:
        if self._keys is not None:
            _depth.entered = False
            self._keys.__exit__(None, None, None)
            self._functions.__exit__(None, None, None)
