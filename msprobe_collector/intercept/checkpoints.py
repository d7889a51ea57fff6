"""Activation checkpointing: where the calls belong that are repeated in the backward pass."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.utils.checkpoint

from msprobe_collector.intercept.redirect import Redirect
from msprobe_collector.record.calls import Region
from msprobe_collector.record.session import Session


class Checkpoints:
    """Remembers, for each checkpointed function, the module that called it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        function: Any = torch.utils.checkpoint.checkpoint
        self._redirect = Redirect(
            function, self._checkpoint, is_compiling=torch.compiler.is_compiling
        )

    def install(self) -> None:
        self._redirect.install()

    def remove(self) -> None:
        self._redirect.remove()

    def _checkpoint(
        self, original: Callable[..., Any], function: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if not self._session.active or not callable(function):
            return original(function, *args, **kwargs)
        threads = self._session.threads
        region = Region(threads.innermost()[0])

        @functools.wraps(function, updated=())
        def repeatable(*args: Any, **kwargs: Any) -> Any:
            if torch._C._current_graph_task_id() == -1:
                return function(*args, **kwargs)
            before, threads.region = threads.region, region
            try:
                return function(*args, **kwargs)
            finally:
                threads.region = before

        return original(repeatable, *args, **kwargs)
