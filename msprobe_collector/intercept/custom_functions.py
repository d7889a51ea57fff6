"""``MyFunction.apply`` bypasses torch functions, so its entry is taken over for a while.

Up to torch 2.13 the entry is a Python function that keeps its identity while its code changes;
from 2.14 on it is made in C, so the attribute is replaced. An ``apply`` that someone bound to a
name of his own before is then not seen, only the calls that its forward makes.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import logging
import sys
import types
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import Function

from msprobe_collector.intercept.apis import record_call
from msprobe_collector.intercept.redirect import Redirect
from msprobe_collector.intercept.staged import is_staged
from msprobe_collector.record.items import collect_tensors
from msprobe_collector.record.session import Session

_log = logging.getLogger("msprobe_collector")
_ENTRY = "apply"


class CustomFunctions:
    """Records calls of custom autograd functions between install and remove."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._redirect: Redirect | None = None
        self._replaced: Any = None
        entry = Function.__dict__.get(_ENTRY)
        function = getattr(entry, "__func__", None)
        if isinstance(function, types.FunctionType):
            self._redirect = Redirect(
                function, self._apply, is_compiling=torch.compiler.is_compiling
            )
        elif hasattr(entry, "__get__"):
            self._replaced = entry
        else:
            _log.warning(
                "torch %s enters custom autograd functions in an unknown way: they are not "
                "recorded as calls, only what they call is.",
                torch.__version__,
            )

    def install(self) -> None:
        if self._redirect is not None:
            self._redirect.install()
        elif self._replaced is not None:
            Function.apply = classmethod(self._replacement())  # type: ignore[method-assign, assignment]

    def remove(self) -> None:
        if self._redirect is not None:
            self._redirect.remove()
        elif self._replaced is not None:
            Function.apply = self._replaced  # type: ignore[method-assign]

    def _replacement(self) -> Callable[..., Any]:
        entry = self._replaced

        def original(cls: type, *args: Any, **kwargs: Any) -> Any:
            return entry.__get__(None, cls)(*args, **kwargs)

        def apply(cls: type, *args: Any, **kwargs: Any) -> Any:
            return self._apply(original, cls, *args, **kwargs)

        return apply

    def _apply(self, original: Callable[..., Any], cls: type, *args: Any, **kwargs: Any) -> Any:
        session = self._session
        compiled = cls.__name__ == "CompiledFunction"
        hidden = cls.__module__.startswith("torch.") and not compiled
        hidden = hidden or "Checkpoint" in cls.__name__
        if hidden or not session.active or is_staged():
            return original(cls, *args, **kwargs)

        def run(*args: Any, **kwargs: Any) -> Any:
            return original(cls, *args, **kwargs)

        frame = sys._getframe(2)
        label = f"Torch.{cls.__name__}"
        result = record_call(session, label, run, args, kwargs, (args, kwargs), frame)
        if compiled:
            _hide_backward(session, result)
        return result


def _hide_backward(session: Session, result: Any) -> None:
    """The backward of compiled code is one call, whatever runs inside."""
    threads = session.threads

    def hide(_received: Any) -> None:
        threads.hides_calls = True

    def show(_sent: Any, _received: Any) -> None:
        threads.hides_calls = False

    outputs: list[torch.Tensor] = []
    with torch._C.DisableTorchFunction():
        collect_tensors(result, outputs)
        for node in {tensor.grad_fn for tensor in outputs if tensor.grad_fn is not None}:
            node.register_prehook(hide)
            node.register_hook(show)
