"""Tensor functions of our own, which nothing else may notice."""

from __future__ import annotations

from typing import Any

import torch


class unseen:  # noqa: N801
    """Run tensor functions that neither autograd nor any mode, ours included, can see."""

    __slots__ = ("_guards",)

    def __enter__(self) -> None:
        self._guards: tuple[Any, ...] = (
            torch._C.DisableTorchFunction(),
            torch._C._DisableTorchDispatch(),
            torch._C._AutoDispatchBelowAutograd(),
        )
        for guard in self._guards:
            guard.__enter__()

    def __exit__(self, *_error: object) -> None:
        for guard in reversed(self._guards):
            guard.__exit__(None, None, None)
