"""Optimizer steps and gradient clipping as parents of the calls they make."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.hooks import RemovableHandle

from msprobe_collector.intercept.redirect import Redirect
from msprobe_collector.record.calls import Call
from msprobe_collector.record.session import Session

_CLIPPING = ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm")


class Phases:
    """Follows the phases between start and stop."""

    def __init__(self, session: Session) -> None:
        self._session = session
        functions: list[Any] = [getattr(torch.nn.utils, name, None) for name in _CLIPPING]
        self._redirects = [
            Redirect(function, self._clip, is_compiling=torch.compiler.is_compiling)
            for function in functions
            if function is not None
        ]
        self._handles: list[RemovableHandle] = []

    def install(self) -> None:
        self._handles = [
            register_optimizer_step_pre_hook(self._begin_optimizer),
            register_optimizer_step_post_hook(self._end_optimizer),
        ]
        if self._session.config.level == "mix":
            for redirect in self._redirects:
                redirect.install()

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        for redirect in self._redirects:
            redirect.remove()
        self._handles = []
        self._session.threads.phase = None

    def _begin_optimizer(
        self, _optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        threads = self._session.threads
        threads.phase = Call("optimizer", "optimizer")
        # ``step(closure)`` runs the model, which is no part of the optimizer.
        if len(args) > 1 and callable(args[1]):
            return (args[0], self._outside(args[1]), *args[2:]), kwargs
        if callable(kwargs.get("closure")):
            return args, {**kwargs, "closure": self._outside(kwargs["closure"])}
        return None

    def _end_optimizer(self, *_arguments: Any) -> None:
        self._session.threads.phase = None

    def _outside(self, closure: Callable[..., Any]) -> Callable[..., Any]:
        threads = self._session.threads

        @functools.wraps(closure)
        def run(*args: Any, **kwargs: Any) -> Any:
            phase, threads.phase = threads.phase, None
            result = closure(*args, **kwargs)
            threads.phase = phase  # after an exception nothing of the optimizer follows
            return result

        return run

    def _clip(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        threads = self._session.threads
        if threads.phase is not None:
            return original(*args, **kwargs)
        threads.phase = Call("clip_grad", "clip_grad")
        try:
            return original(*args, **kwargs)
        finally:
            threads.phase = None
