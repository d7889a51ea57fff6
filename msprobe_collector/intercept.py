"""API calls: a torch function mode that is on the stack between start and stop."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from msprobe_collector.call_sites import as_written
from msprobe_collector.calls import Pending
from msprobe_collector.items import collect_tensors
from msprobe_collector.names import Action, Api, changes_arguments, describe_function
from msprobe_collector.operators import operator_name
from msprobe_collector.redirect import Redirect
from msprobe_collector.session import Session

_SEED_OF_BACKWARD = torch.autograd._make_grads.__code__


class CallMode(TorchFunctionMode):
    """Sees every torch function that Python calls in the threads it is on."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._records = session.config.with_apis

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if torch.compiler.is_compiling():
            return func(*args, **kwargs)
        api = describe_function(func)
        action = api.action
        session = self._session
        if action is Action.IGNORE or not session.active or session.threads.hides_calls:
            return func(*args, **kwargs)
        if action is Action.RECORD:
            if not self._records:
                return func(*args, **kwargs)
            return self._record(api, func, args, kwargs, sys._getframe(1))
        if action is Action.EXPOSE:
            if args and isinstance(args[0], torch.Tensor):
                self._session.items.expose(args[0])
            return func(*args, **kwargs)
        return self._run_engine(func, args, kwargs)

    def _record(
        self,
        api: Api,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        frame: FrameType,
    ) -> Any:
        label = api.label
        if api.by_operator:
            operator = operator_name(frame, args)
            if operator is not None:
                label = f"Tensor.{operator}"
        elif frame.f_code is _SEED_OF_BACKWARD:
            return func(*args, **kwargs)
        written = as_written(frame, func, args, kwargs)
        if written is None:
            written = args, _without_defaults(api, kwargs)
        return record_call(self._session, label, func, args, kwargs, written, frame)

    def _run_engine(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run backward with this mode on, because hooks and recomputation run inside."""
        with self:
            return _ENGINE_ENTRIES[func](*args, **kwargs)


def record_call(
    session: Session,
    label: str,
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    written: tuple[tuple[Any, ...], dict[str, Any]],
    frame: FrameType | None,
) -> Any:
    """Run ``func`` as the API call ``label``, for which the caller wrote ``written``."""
    pending: Pending | None = None
    try:
        with torch._C.DisableTorchFunction():
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
            with torch._C.DisableTorchFunction():
                session.leave(pending, result, None)
        except Exception as error:
            session.report(label, error)
    return result


def _without_defaults(api: Api, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keywords without those that the function itself added with the value None."""
    if not kwargs or not api.none_defaults:
        return kwargs
    return {
        key: value
        for key, value in kwargs.items()
        if value is not None or key not in api.none_defaults
    }


def _without_dispatch(function: types.FunctionType) -> Callable[..., Any]:
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


_ENGINE: tuple[Any, ...] = (
    torch.Tensor.backward,
    torch.autograd.backward,
    torch.autograd.grad,
)
_ENGINE_ENTRIES: dict[Any, Callable[..., Any]] = {
    function: _without_dispatch(function) for function in _ENGINE
}


def custom_functions(session: Session) -> list[Redirect]:
    """``MyFunction.apply`` bypasses torch functions, so its entry is redirected."""

    def apply(original: Callable[..., Any], cls: type, *args: Any, **kwargs: Any) -> Any:
        compiled = cls.__name__ == "CompiledFunction"
        hidden = cls.__module__.startswith("torch.") and not compiled
        hidden = hidden or "Checkpoint" in cls.__name__
        if hidden or not session.active or torch.compiler.is_compiling():
            return original(cls, *args, **kwargs)

        def run(*args: Any, **kwargs: Any) -> Any:
            return original(cls, *args, **kwargs)

        frame = sys._getframe(2)
        label = f"Torch.{cls.__name__}"
        result = record_call(session, label, run, args, kwargs, (args, kwargs), frame)
        if compiled:
            _hide_backward(session, result)
        return result

    function: Any = torch.autograd.Function.apply
    return [Redirect(function.__func__, apply)]


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
