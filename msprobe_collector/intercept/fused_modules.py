"""Modules that compute in one fused call when nobody watches.

``nn.TransformerEncoder`` and its parts take another path in evaluation, with slightly other
numbers, but only while they find neither hooks nor a torch function mode. So their calls are
followed through ``forward`` of the instance, and where the fused path may be taken the mode steps
aside: the module is then one call, with nothing inside, and computes what it always computes.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from msprobe_collector.intercept.apis import CallMode, put_on, record_call, remove_mode
from msprobe_collector.intercept.redirect import Redirect
from msprobe_collector.intercept.staged import is_staged
from msprobe_collector.record.session import Session

_FUSED = (nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.MultiheadAttention)


def modules_without_hooks(models: Iterable[nn.Module]) -> set[nn.Module]:
    """All modules that must not carry hooks: the fused ones and what is inside them."""
    found: set[nn.Module] = set()
    for model in models:
        for module in model.modules():
            if isinstance(module, _FUSED) and module not in found:
                found.update(module.modules())
    return found


def may_fuse(module: nn.Module) -> bool:
    """Whether a call of ``module`` may take its fused path now."""
    if not isinstance(module, _FUSED) or module.training:
        return False
    return not torch.is_grad_enabled() or not any(p.requires_grad for p in module.parameters())


class FusedPaths:
    """Steps aside where a fused path may be taken, between install and remove."""

    def __init__(self, session: Session, mode: Callable[[], CallMode]) -> None:
        self._session = session
        self._mode = mode
        functions: list[Any] = [kind.forward for kind in _FUSED]
        self._redirects = [
            Redirect(function, self._forward, is_compiling=torch.compiler.is_compiling)
            for function in functions
        ]

    def install(self) -> None:
        for redirect in self._redirects:
            redirect.install()

    def remove(self) -> None:
        for redirect in self._redirects:
            redirect.remove()

    def _forward(
        self, original: Callable[..., Any], module: nn.Module, *args: Any, **kwargs: Any
    ) -> Any:
        session = self._session
        threads = session.threads
        aside = session.active and threads.sees_calls and not threads.hides_calls
        if not aside or is_staged() or not may_fuse(module):
            return original(module, *args, **kwargs)

        def run(*args: Any, **kwargs: Any) -> Any:
            mode = self._mode()
            threads.hides_calls = True
            remove_mode(mode)
            try:
                return original(module, *args, **kwargs)
            finally:
                threads.hides_calls = False
                if mode.counts:
                    put_on(mode)

        if not session.config.with_apis:
            return run(*args, **kwargs)
        label = f"Torch.{type(module).__name__}"
        return record_call(session, label, run, args, kwargs, (args, kwargs), sys._getframe(2))


class Surrounded:
    """Calls of modules that must not carry hooks, between ``follow`` and ``remove``."""

    def __init__(self) -> None:
        self._originals: list[tuple[nn.Module, Any, Any]] = []

    def follow(
        self, module: nn.Module, before: Callable[..., None], after: Callable[..., None]
    ) -> None:
        """Call ``before`` and ``after`` around each call of ``module``."""

        def forward(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            # Of the class, so that a copy of the module runs its own.
            run = type(module).forward.__get__(module) if own is None else own
            before(module, args, kwargs)
            result = None
            try:
                result = run(*args, **kwargs)
                return result
            finally:
                after(module, args, kwargs, result)

        own = module.__dict__.get("forward")
        bound = types.MethodType(forward, module)
        self._originals.append((module, own, bound))
        module.forward = bound

    @contextmanager
    def put_aside(self, model: nn.Module) -> Iterator[None]:
        """Give the parts of ``model`` back as they were, for a while."""
        inside = set(model.modules())
        followed = [entry for entry in self._originals if entry[0] in inside]
        for module, own, bound in followed:
            _give_back(module, own, bound)
        try:
            yield
        finally:
            for module, _, bound in followed:
                module.forward = bound

    def remove(self) -> None:
        for module, own, bound in self._originals:
            _give_back(module, own, bound)
        self._originals = []


def _give_back(module: nn.Module, own: Any, bound: Any) -> None:
    if module.__dict__.get("forward") is not bound:
        return  # someone replaced it after us and keeps theirs
    if own is None:
        del module.forward
    else:
        module.forward = own
