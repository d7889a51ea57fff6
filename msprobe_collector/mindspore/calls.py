"""API calls: functions of ``mint`` and ``ops``, methods of tensors, and Primitives.

Functions keep their identity: their code is replaced while a step is recorded, so that it does
not matter how a caller came by them. Methods of tensors lie in C++ and are overlaid in the class.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import mindspore
from mindspore.ops.primitive import Primitive

from msprobe_collector.intercept.redirect import Redirect
from msprobe_collector.mindspore.names import (
    SILENT_PRIMITIVES,
    label_of,
    public_functions,
    tensor_methods,
)
from msprobe_collector.record.calls import Pending
from msprobe_collector.record.session import Session

_MACHINERY = ("mindspore/common/recompute.py", "mindspore\\common\\recompute.py")


class Calls:
    """Sees the calls between install and remove; what a call makes itself is part of it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._redirects: list[Redirect] = []
        self._overlaid: dict[str, tuple[Any, Any]] = {}

    def install(self) -> None:
        if not self._redirects:
            self._redirects = [
                Redirect(function, partial(self._function, labels), True)
                for function, labels in public_functions().items()
            ]
            self._redirects += [
                Redirect(method, self._primitive, True) for method in _primitive_calls()
            ]
        for redirect in self._redirects:
            redirect.install()
        for name, method in tensor_methods():
            overlay = self._method(name, method)
            self._overlaid[name] = (mindspore.Tensor.__dict__.get(name), overlay)
            setattr(mindspore.Tensor, name, overlay)

    def remove(self) -> None:
        for redirect in self._redirects:
            redirect.remove()
        for name, (own, overlay) in self._overlaid.items():
            if mindspore.Tensor.__dict__.get(name) is not overlay:
                continue  # someone replaced it after us and keeps theirs
            if own is None:
                delattr(mindspore.Tensor, name)
            else:
                setattr(mindspore.Tensor, name, own)
        self._overlaid = {}

    def _idle(self) -> bool:
        threads = self._session.threads
        return not self._session.active or threads.hides_calls or not threads.sees_calls

    def _function(
        self, labels: list[tuple[Any, str]], original: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        frame = sys._getframe(3)
        if self._idle():
            return original(*args, **kwargs)
        if frame.f_code.co_filename.endswith(_MACHINERY):
            with self._session.framework.unseen():
                return original(*args, **kwargs)
        return record_call(self._session, label_of(labels, frame), original, args, kwargs, frame)

    def _primitive(
        self, original: Callable[..., Any], primitive: Primitive, *args: Any, **kwargs: Any
    ) -> Any:
        kind = type(primitive)
        name = str(primitive.name) if kind is Primitive else kind.__name__
        if self._idle() or name in SILENT_PRIMITIVES:
            return original(primitive, *args, **kwargs)
        instance = getattr(primitive, "instance_name", None) or name
        frame = sys._getframe(3)
        call = partial(original, primitive)
        return record_call(self._session, f"Primitive.{instance}.{name}", call, args, kwargs, frame)

    def _method(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        label = f"Tensor.{name}"

        def method(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if self._idle():
                return original(tensor, *args, **kwargs)
            frame = sys._getframe(1)
            return record_call(self._session, label, original, (tensor, *args), kwargs, frame)

        return functools.update_wrapper(method, original, ("__name__", "__qualname__", "__doc__"))


def _primitive_calls() -> list[types.FunctionType]:
    """``__call__`` of each class of Primitives that has its own."""
    found: dict[types.FunctionType, None] = {}
    waiting: list[type[Any]] = [Primitive]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        call = kind.__dict__.get("__call__")
        if isinstance(call, types.FunctionType):
            found[call] = None
    return list(found)


def record_call(
    session: Session,
    label: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    frame: FrameType,
) -> Any:
    """Run ``function`` as the API call ``label`` of the code in ``frame``."""
    pending: Pending | None = None
    unseen = session.framework.unseen
    try:
        with unseen():
            call, base, below = session.api_call(label)
            stack = session.capture(frame, base, below)
            pending = session.enter(call, args, kwargs, stack, changes=_changes(label, kwargs))
    except Exception as error:
        session.report(label, error)
    with unseen():
        try:
            result = function(*args, **kwargs)
        except BaseException:
            if pending is not None:
                session.fail(pending)
            raise
        if pending is not None:
            try:
                session.leave(pending, result, None)
            except Exception as error:
                session.report(label, error)
    return result


def _changes(label: str, kwargs: dict[str, Any]) -> bool:
    """Whether a call may overwrite its arguments."""
    name = label.rpartition(".")[2]
    if name.endswith("__"):
        return name.startswith("__i") or name == "__setitem__"
    return name.endswith("_") or "out" in kwargs or bool(kwargs.get("inplace"))
