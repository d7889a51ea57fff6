"""Compiled regions: what runs inside is one call, and nothing looks in.

Dynamo would trace through our function mode and break the graph at every call. So the mode steps
aside when compiled code is entered. The region shows as the module that was compiled and as the
``CompiledFunction`` that autograd runs for it; the parameters of all modules in it are its own.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from msprobe_collector.intercept.apis import CallMode, put_on, remove_mode
from msprobe_collector.intercept.modules import Named
from msprobe_collector.intercept.staged import leave_alone
from msprobe_collector.record.session import Session

_log = logging.getLogger("msprobe_collector")

# How Dynamo names what sets its callback: since torch 2.5, and before.
_ENTRIES = ("_maybe_set_eval_frame", "set_eval_frame")


class CompiledRegions:
    """Keeps the mode out of compiled code between start and stop."""

    current: CompiledRegions | None = None  # while one is installed

    def __init__(
        self,
        session: Session,
        mode: Callable[[], CallMode],
        module_of: Callable[[int], Named | None],
    ) -> None:
        """``module_of`` knows the modules that are recorded by their identities."""
        self.session = session
        self.module_of = module_of
        self._threads = session.threads
        self._mode = mode
        self._has_looked = self._has_entered = False
        self._entry = ""
        self._original: Callable[[Any], Any] | None = None

    @property
    def looks(self) -> bool:
        """Whether what this thread runs in a compiled region is to be recorded."""
        session = self.session
        seen = session.active and self._threads.sees_calls and not self._threads.hides_calls
        return session.config.inside_compiled and seen

    @contextmanager
    def seen(self) -> Iterator[None]:
        """Let the mode see the calls of this thread, in the middle of a compiled region."""
        self._has_looked = True
        put_on(self._mode())
        try:
            yield
        finally:
            remove_mode(self._mode())

    def install(self) -> None:
        CompiledRegions.current = self
        dynamo = sys.modules.get("torch._dynamo.eval_frame")
        self._entry = next((name for name in _ENTRIES if hasattr(dynamo, name)), "")
        if self._entry:
            leave_alone(CompiledRegions._enter_or_leave.__code__)
            self._original = getattr(dynamo, self._entry)
            setattr(dynamo, self._entry, self._enter_or_leave)

    def remove(self) -> None:
        CompiledRegions.current = None
        if self.session.config.inside_compiled and self._has_entered and not self._has_looked:
            _log.warning(
                "Compiled regions were not recorded call by call: they were compiled before the"
                " debugger was made. Make it first, or start the script by msprobe-run."
            )
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
                self._has_entered = True
                if not threads.modules and self.session.ledger.selection.keeps_all:
                    self.session.parameters.keep_uncalled()
                remove_mode(self._mode())
        elif threads.compiled_by is wrapper:
            threads.compiled_by = None
            torch._C._push_on_torch_function_stack(self._mode())
        self._original(callback)
        return prior


def _is_compiled_call(wrapper: str, callback: Any) -> bool:
    """Older torch gives the wrapper of a disabled function the same name, without a callback."""
    return wrapper == "compile_wrapper" or (wrapper == "_fn" and callable(callback))
