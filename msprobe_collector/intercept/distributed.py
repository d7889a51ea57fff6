"""Communication calls of ``torch.distributed``, however they were imported.

A collective writes into its arguments, so what goes out is all arguments after completion. An
asynchronous call is completed by ``wait()`` on the handle it returned.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from msprobe_collector.intercept.redirect import Redirect
from msprobe_collector.intercept.staged import is_staged
from msprobe_collector.record.calls import Pending
from msprobe_collector.record.session import Session
from msprobe_collector.unseen import unseen

_FUNCTIONS = (
    "send",
    "recv",
    "broadcast",
    "all_reduce",
    "reduce",
    "all_gather",
    "gather",
    "isend",
    "irecv",
    "scatter",
    "reduce_scatter",
    "_reduce_scatter_base",
    "_all_gather_base",
    "all_to_all_single",
    "all_to_all",
    "all_gather_into_tensor",
    "all_gather_single",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "batch_isend_irecv",
    "all_reduce_coalesced",
    "all_gather_coalesced",
    "reduce_scatter_tensor_coalesced",
    "all_gather_into_tensor_coalesced",
)


class Communication:
    """Redirects the calls between start and stop and waits for the open ones."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._redirects: list[Redirect] = []
        self._open: list[_OpenCall] = []
        self._wait: Any = None

    def install(self) -> None:
        if not (dist.is_available() and dist.is_initialized()):
            return
        if not self._redirects:  # once: what a function calls is kept for calls on their way
            self._redirects = [
                Redirect(
                    function, self._recorded_as(name), is_compiling=torch.compiler.is_compiling
                )
                for name in _FUNCTIONS
                if isinstance(function := getattr(dist, name, None), types.FunctionType)
            ]
        for redirect in self._redirects:
            redirect.install()
        self._wait = dist.Work.wait
        dist.Work.wait = self._observed_wait()  # type: ignore[method-assign]

    def remove(self) -> None:
        for redirect in self._redirects:
            redirect.remove()
        if self._wait is not None:
            dist.Work.wait = self._wait  # type: ignore[method-assign]
            self._wait = None
        for call in self._open:
            if all(work.is_completed() for work in call.works):
                self._complete(call)
            else:
                self._session.fail(call.pending)
        self._open = []

    def _recorded_as(self, name: str) -> Callable[..., Any]:
        def recorded(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            threads = self._session.threads
            if not self._session.active or threads.communication_depth or is_staged():
                return original(*args, **kwargs)
            threads.communication_depth += 1
            try:
                with torch._C.DisableTorchFunction():
                    return self._record(name, original, args, kwargs)
            finally:
                threads.communication_depth -= 1

        return recorded

    def _record(
        self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: Any
    ) -> Any:
        session = self._session
        label = f"Distributed.{name}"
        pending: Pending | None = None
        try:
            with unseen():
                call, base, below = session.api_call(label)
                stack = session.capture(sys._getframe(3), base, below)
                pending = session.enter(
                    call, args, kwargs, stack, changes=True, with_gradients=False
                )
        except Exception as error:
            session.report(label, error)
        try:
            result = original(*args, **kwargs)
        except BaseException:
            if pending is not None:
                session.fail(pending)
            raise
        if pending is not None:
            works = _works_of(result)
            opened = _OpenCall(pending, args, kwargs, works)
            if works:
                self._open.append(opened)
            else:
                self._complete(opened)
        return result

    def _complete(self, call: _OpenCall) -> None:
        session = self._session
        try:
            with unseen():
                session.leave(call.pending, (*call.args, *call.kwargs.values()), None)
        except Exception as error:
            session.report(call.pending.call.forward_name, error)

    def _observed_wait(self) -> Callable[..., Any]:
        original = self._wait

        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(work, *args, **kwargs)
            for call in [call for call in self._open if work in call.works]:
                call.works.remove(work)
                if not call.works:
                    self._open.remove(call)
                    if self._session.active:
                        self._complete(call)
            return result

        return wait


class _OpenCall:
    """A communication whose data is on the way."""

    def __init__(
        self, pending: Pending, args: tuple[Any, ...], kwargs: dict[str, Any], works: list[Any]
    ) -> None:
        self.pending = pending
        self.args = args
        self.kwargs = kwargs
        self.works = works


def _works_of(result: Any) -> list[Any]:
    candidates = result if isinstance(result, list) else [result]
    return [work for work in candidates if isinstance(work, dist.Work)]
