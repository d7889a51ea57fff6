"""Calls of modules: opened when they begin, closed when they return or raise."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from msprobe_collector.record.calls import Call, OpenModule
from msprobe_collector.record.session import Session


def enter_module(
    session: Session,
    stem: str,
    path: str,
    module: Any,
    args: Any,
    kwargs: dict[str, Any],
    base: FrameType,
) -> None:
    """A call of the module at ``path`` begins in the frame ``base``; ``stem`` names its class."""
    threads = session.threads
    if not threads.modules:
        threads.phase = None  # no optimizer consists of modules: an earlier one was interrupted
    parent, outer_base, outer_below = threads.innermost()
    number = session.next_number(f"{stem}.forward")
    call = Call(f"{stem}.forward.{number}", f"{stem}.backward.{number}", parent, path=path)
    if parent is None:
        call.under_backward = session.recomputed_in(path)
    below = session.capture(base.f_back, outer_base, outer_below)
    opened = OpenModule(call, base, below, module, sys.exc_info()[1])
    threads.modules.append(opened)
    try:
        stack = session.capture(base, base, below)
        changes = bool(getattr(module, "inplace", False))
        if session.flow is not None:
            session.flow.name_own(path, module)
        opened.pending = session.enter(call, args, kwargs, stack, changes=changes)
        if call.kept:
            session.parameters.keep(stem)
            session.place_call(opened.pending)
    except Exception as error:
        session.report(call.forward_name, error)


def close_module(session: Session, module: Any) -> OpenModule | None:
    """Take the call of ``module`` off the stack with whatever an exception left above it."""
    modules = session.threads.modules
    for position in range(len(modules) - 1, -1, -1):
        if modules[position].owner is module:
            opened = modules[position]
            del modules[position:]
            return opened
    return None


def leave_module(
    session: Session, opened: OpenModule | None, result: Any, parameters: dict[str, Any]
) -> None:
    """Write down what a closed call returned; while an exception passes, that it raised."""
    if opened is None or opened.pending is None:
        return
    try:
        if result is None and sys.exc_info()[1] is not opened.handled:
            session.fail(opened.pending)
        else:
            session.leave(opened.pending, result, parameters)
    except Exception as error:
        session.report(opened.call.forward_name, error)
