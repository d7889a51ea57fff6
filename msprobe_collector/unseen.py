"""Tensor functions of our own, which nothing else may notice."""

from __future__ import annotations

import threading
from typing import Any

import torch


class _Depth(threading.local):
    entered = False


_depth = _Depth()


class unseen:  # noqa: N801
    """Run tensor functions that neither autograd nor any mode, ours included, can see."""

    __slots__ = ("_guards",)

    def __enter__(self) -> None:
        # Guards cost more than most of what they surround: inside another there is no need.
        self._guards: tuple[Any, ...] | None = None
        if _depth.entered:
            return
        self._guards = (
            torch._C.DisableTorchFunction(),
            torch._C._DisableTorchDispatch(),
            torch._C._AutoDispatchBelowAutograd(),
        )
        for guard in self._guards:
            guard.__enter__()
        _depth.entered = True

    def __exit__(self, *_error: object) -> None:
        if self._guards is not None:
            _depth.entered = False
            for guard in reversed(self._guards):
                guard.__exit__(None, None, None)
