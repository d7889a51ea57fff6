"""API calls: a torch function mode that is on the stack between start and stop."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import DeviceContext

from msprobe_collector.intercept.call_sites import as_written
from msprobe_collector.intercept.functional_collectives import (
    WAIT,
    FunctionalCollectives,
    with_group,
)
from msprobe_collector.intercept.names import (
    ENTERED,
    Action,
    Api,
    changes_arguments,
    describe_function,
)
from msprobe_collector.intercept.operators import take_operator
from msprobe_collector.intercept.staged import is_staged
from msprobe_collector.record.calls import Pending
from msprobe_collector.record.framework import NO_PASS, Flow
from msprobe_collector.record.session import Session
from msprobe_collector.unseen import unseen

_TORCH = str(Path(torch.__file__).parent)
_DISTRIBUTED = str(Path(_TORCH, "distributed", "tensor"))
_DEVICE_CONTEXT = DeviceContext.__torch_function__.__code__


_UNKNOWN = Api("", Action.IGNORE)

Finish: TypeAlias = Callable[[Pending, Any], None]


class CallMode(TorchFunctionMode):
    """Sees every torch function that Python calls in the threads it is on."""

    def __init__(self, session: Session, collectives: FunctionalCollectives) -> None:
        super().__init__()
        self._collectives = collectives
        self.counts = True  # until stop, in whatever thread that is called
        self._session = session
        self._ledger = session.ledger
        self._framework = session.framework

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if kwargs is None:
            kwargs = {}
        api = self._described(func)
        if (
            api.action is Action.IGNORE
            or (api.action is Action.RECORD and not self._session.config.with_apis)
            or not self.counts
            or not self._ledger.active
            or self._session.threads.hides_calls
            or is_staged()
        ):
            return func(*args, **kwargs)
        return self._run(api, func, args, kwargs)

    def _described(self, func: Callable[..., Any]) -> Api:
        try:
            return describe_function(func)
        except Exception as error:  # one that cannot be told from others, or asked for its name
            self._session.report("A function", error)
            return _UNKNOWN

    def _run(
        self, api: Api, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if api.action is Action.RECORD:
            result = self._record(api, func, args, kwargs, _caller(sys._getframe(2)))
            if api.exposes:
                self._expose(result)
            return result
        if api.action is Action.EXPOSE:
            self._expose(args[0])
            return func(*args, **kwargs)
        if api.action is Action.HOOK:
            self._follow("register_hook", lambda flow: flow.gradients.hook(args[0]))
            return func(*args, **kwargs)
        return self._enter(func, args, kwargs)

    def _follow(self, what: str, note: Callable[[Flow], None]) -> None:
        """Tell what follows the data, if anything does."""
        flow = self._session.flow
        if flow is not None:
            try:
                with unseen():
                    note(flow)
            except Exception as error:
                self._session.report(what, error)

    def _expose(self, tensor: Any) -> None:
        try:
            with torch._C.DisableTorchFunction():
                self._session.items.expose(tensor)
        except Exception:  # noqa: S110 - without memory there is nothing to expose
            pass

    def _record(
        self,
        api: Api,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        frame: FrameType,
    ) -> Any:
        label = api.label
        operator = take_operator()
        if operator is not None:
            label = f"Tensor.{operator}"
        finish: Finish | None = None
        is_communication = label.startswith("Distributed.")
        may_be_inside = label.startswith("Aten.") or self._framework.current_pass() != NO_PASS
        if may_be_inside and not is_communication and _is_inside_dispatch(frame):
            return func(*args, **kwargs)
        if is_communication:
            if label == WAIT:
                result = func(*args, **kwargs)
                self._collectives.waited_for(args)
                return result
            finish = self._collectives.hold
        written = None
        try:
            written = as_written(frame, func, args, kwargs)
        except Exception as error:
            self._session.report(label, error)
        if written is None:
            shown = with_group(args) if is_communication else args
            written = shown, _without_defaults(api, kwargs) if kwargs else kwargs
        return record_call(self._session, label, func, args, kwargs, written, frame, finish)

    def _enter(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run ``func`` with this mode on."""
        roots = _roots(func, args, kwargs)
        if roots:
            self._follow("A backward pass", lambda flow: flow.gradients.begin(roots))
        before = self._session.backwards.passes
        try:
            with self:
                return _ENTRIES[func](*args, **kwargs)
        except BaseException:
            self._session.backwards.abandon(before)
            raise


def _roots(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[torch.Tensor]:
    """The tensors that a backward pass begins at."""
    if func not in _PASSES:
        return []
    given = args[0] if args else kwargs.get(_PASSES[func])
    if isinstance(given, torch.Tensor):
        return [given]
    parts = given if isinstance(given, list | tuple) else ()
    return [part for part in parts if isinstance(part, torch.Tensor)]


def put_on(mode: CallMode) -> None:
    """Put ``mode`` on this thread's stack, below what others enter and leave.

    A mode above someone else's would be popped in its place. Only the default device, which
    torch keeps at the very bottom, stays there.
    """
    above = []
    while torch._C._len_torch_function_stack():
        above.append(torch._C._pop_torch_function_stack())
    if above and above[-1] is getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None):
        torch._C._push_on_torch_function_stack(above.pop())
    torch._C._push_on_torch_function_stack(mode)
    for other in reversed(above):
        if not isinstance(other, CallMode):  # left by a stop in another thread
            torch._C._push_on_torch_function_stack(other)


def remove_mode(mode: TorchFunctionMode) -> None:
    """Take ``mode`` off this thread's stack wherever it lies."""
    above = []
    while torch._C._len_torch_function_stack():
        top = torch._C._pop_torch_function_stack()
        if top is mode:
            break
        above.append(top)
    for other in reversed(above):
        torch._C._push_on_torch_function_stack(other)


def _caller(frame: FrameType) -> FrameType:
    """The frame of the call, without a device context that passed it on."""
    while frame.f_code is _DEVICE_CONTEXT and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _is_inside_dispatch(frame: FrameType | None) -> bool:
    """Whether a kind of tensors, such as distributed ones, makes this call for another call.

    In the forward pass such calls lie inside the one that was seen; the engine calls them alone.
    """
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__torch_dispatch__" or code.co_filename.startswith(_DISTRIBUTED):
            return True
        if not code.co_filename.startswith(_TORCH):
            return False
        frame = frame.f_back
    return False


def record_call(
    session: Session,
    label: str,
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    written: tuple[tuple[Any, ...], dict[str, Any]],
    frame: FrameType | None,
    finish: Finish | None = None,
) -> Any:
    """Run ``func`` as the API call ``label``, for which the caller wrote ``written``.

    ``finish`` takes calls whose result is not there yet when they return.
    """
    pending: Pending | None = None
    try:
        with unseen():
            call, base, below = session.api_call(label)
            stack = session.capture(frame, base, below)
            changes = changes_arguments(label, kwargs)
            pending = session.enter(call, *written, stack, changes=changes)
    except Exception as error:
        session.report(label, error)
    try:
        result = func(*args, **kwargs)
    except BaseException:
        if pending is not None:
            session.fail(pending)
        raise
    if pending is not None:
        try:
            with unseen():
                if finish is not None:
                    finish(pending, result)
                else:
                    session.leave(pending, result, None)
        except Exception as error:
            session.report(label, error)
    return result


def _without_defaults(api: Api, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keywords without those that the function itself added with the value None."""
    if not api.none_defaults:
        return kwargs
    return {
        key: value
        for key, value in kwargs.items()
        if value is not None or key not in api.none_defaults
    }


def _without_dispatch(function: Any) -> Callable[..., Any]:
    """``function`` without the check that would hand the call to the mode again."""
    checks = dict.fromkeys(("has_torch_function", "has_torch_function_unary"), _never)
    names = {**function.__globals__, **checks}
    copy = types.FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _never(*_arguments: Any) -> bool:
    return False


# How the tensors are called that it begins at; the method of a tensor calls the first.
_PASSES: dict[Any, str] = {
    torch.autograd.backward: "tensors",
    torch.autograd.grad: "outputs",
}
_ENTRIES: dict[Any, Callable[..., Any]] = {
    function: _without_dispatch(function) for function in ENTERED
}
