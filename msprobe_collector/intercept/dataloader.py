"""``enable_dataloader``: each batch that a data loader hands out begins a step."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils.data.dataloader import _BaseDataLoaderIter

from msprobe_collector.intercept.redirect import Redirect


class FollowedDataLoader:
    """Calls ``end`` before and ``begin`` after each batch, between install and remove."""

    def __init__(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        self._begin = begin
        self._end = end
        function: Any = _BaseDataLoaderIter.__next__
        self._redirect = Redirect(function, self._next)

    def install(self) -> None:
        self._redirect.install()

    def remove(self) -> None:
        self._redirect.remove()

    def _next(self, original: Callable[..., Any], *args: Any) -> Any:
        self._end()
        batch = original(*args)
        self._begin()
        return batch
