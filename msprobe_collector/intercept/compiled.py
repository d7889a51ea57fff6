"""Compiled regions: what runs inside is one call, and nothing looks in.

Dynamo would trace through our function mode and break the graph at every call. So the mode steps
aside when compiled code is entered. The region shows as the module that was compiled and as the
``CompiledFunction`` that autograd runs for it; the parameters of all modules in it are its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from msprobe_collector.intercept.apis import remove_mode
from msprobe_collector.intercept.staged import leave_alone
from msprobe_collector.record.session import Session

# How Dynamo names what sets its callback: since torch 2.5, and before.
_ENTRIES = ("_maybe_set_eval_frame", "set_eval_frame")


class CompiledRegions:
    """Keeps the mode out of compiled code between start and stop."""

    def __init__(self, session: Session, mode: Callable[[], TorchFunctionMode]) -> None:
        self._session = session
        self._threads = session.threads
        self._mode = mode
        self._entry = ""
        self._original: Callable[[Any], Any] | None = None

    def install(self) -> None:
        dynamo = sys.modules.get("torch._dynamo.eval_frame")
        self._entry = next((name for name in _ENTRIES if hasattr(dynamo, name)), "")
        if self._entry:
            leave_alone(CompiledRegions._enter_or_leave.__code__)
            self._original = getattr(dynamo, self._entry)
            setattr(dynamo, self._entry, self._enter_or_leave)

    def remove(self) -> None:
        dynamo = sys.modules.get("torch._dynamo.eval_frame")
        if self._original is not None:
            setattr(dynamo, self._entry, self._original)
            self._original = None

    def _enter_or_leave(self, callback: Any) -> Any:
        """The wrapper of a compiled function sets Dynamo's callback, and takes it back later."""
        assert self._original is not None
        # Before torch 2.5 Dynamo is still at work when it is taken back, and would compile this.
        prior = self._original(None)
        threads = self._threads
        wrapper = sys._getframe(1)
        if threads.compiled_by is None:
            if threads.sees_calls and _is_compiled_call(wrapper.f_code.co_name, callback):
                threads.compiled_by = wrapper
                if not threads.modules and self._session.ledger.selection.keeps_all:
                    self._session.parameters.keep_uncalled()
                remove_mode(self._mode())
        elif threads.compiled_by is wrapper:
            threads.compiled_by = None
            torch._C._push_on_torch_function_stack(self._mode())
        self._original(callback)
        return prior


def _is_compiled_call(wrapper: str, callback: Any) -> bool:
    """Older torch gives the wrapper of a disabled function the same name, without a callback."""
    return wrapper == "compile_wrapper" or (wrapper == "_fn" and callable(callback))
