"""One call of a module or an API, and where it stands in the hierarchy."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from types import FrameType
from typing import Any

from msprobe_collector.record.stack import NO_STACK
from msprobe_collector.write.step_files import OpenCall, StepFiles


class Call:
    """A running or finished call; ``parent`` is the module call, or phase, around it."""

    __slots__ = (
        "backward_name",
        "encloses",
        "forward_name",
        "keeps_inside",
        "kept",
        "label",
        "parent",
        "path",
        "under_backward",
    )

    def __init__(
        self,
        forward_name: str,
        backward_name: str,
        parent: Call | None = None,
        under_backward: Call | None = None,
        path: str = "",
        label: str = "",
    ) -> None:
        self.forward_name = forward_name
        self.backward_name = backward_name
        self.parent = parent
        self.under_backward = under_backward  # it runs inside this call's backward
        self.path = path  # of a module: what stands before its class
        self.label = label  # of an API: what stands before its number
        self.kept = False  # by the selection
        self.keeps_inside = False  # and everything inside it, too
        self.encloses = False  # the scope began inside it


class Pending:
    """A call that was entered: what is known of it before it returns."""

    __slots__ = ("call", "edges", "first_node", "flow", "has_tensors", "held", "record", "stack")

    def __init__(self, call: Call, stack: int) -> None:
        self.call = call
        self.stack = stack
        self.record: dict[str, Any] = {}
        self.has_tensors = False
        self.edges: list[tuple[Any, int] | None] | None = None  # None: gradients are not watched
        self.first_node = 0
        self.held: Held | None = None
        self.flow: Any = None  # who made what it was given, where that is recorded


@dataclass(frozen=True)
class Held:
    """The arguments of a call, kept until it is known whether they are worth saving."""

    args: list[Any]
    kwargs: dict[str, Any]


class OpenModule:
    """A module call that has not returned yet, with the stack it stands on."""

    __slots__ = ("base", "below", "call", "handled", "owner", "pending")

    def __init__(
        self,
        call: Call,
        base: FrameType | None,
        below: int,
        owner: object,
        handled: BaseException | None,
    ) -> None:
        self.call = call
        self.base = base
        self.below = below
        self.owner = owner
        self.handled = handled  # the exception in whose handler the call is made
        self.pending: Pending | None = None


@dataclass(frozen=True)
class Region:
    """A part of the forward pass that is repeated in backward; ``call`` is the module around."""

    call: Call | None


class ThreadState(threading.local):
    """What a thread is in the middle of."""

    def __init__(self) -> None:
        self.modules: list[OpenModule] = []
        self.communication_depth = 0
        self.sees_calls = False  # the function mode is on this thread's stack
        self.compiled_by: FrameType | None = None  # whoever runs compiled code right now
        self.hides_calls = False  # the backward of compiled code runs
        self.entered_by: object = None  # the module that put the mode there
        self.phase: Call | None = None
        self.region: Region | None = None  # activation checkpointing repeats a part of it

    def innermost(self) -> tuple[Call | None, FrameType | None, int]:
        if self.modules:
            top = self.modules[-1]
            return top.call, top.base, top.below
        return self.phase, None, NO_STACK


def place_forward(files: StepFiles, call: Call) -> None:
    """Put a call below its parent in construct.json, parents first."""
    if files.has_placed(call.forward_name):
        return
    if call.parent is not None:
        place_forward(files, call.parent)
        files.place(call.forward_name, call.parent.forward_name)
    elif call.under_backward is not None:
        place_backward(files, call.under_backward)
        files.place(call.forward_name, call.under_backward.backward_name)
    else:
        files.place(call.forward_name, None)


def described(files: StepFiles, pending: Pending) -> OpenCall:
    """What is known of a call before it returns."""
    call = pending.call
    record = dict(pending.record)  # at once: the call may return meanwhile
    record.update(output=[], is_recompute=False, has_returned=False)
    places: list[tuple[str, str | None]] = []
    inner: Call | None = call
    while inner is not None and not files.has_placed(inner.forward_name):
        above = None if inner.parent is None else inner.parent.forward_name
        if above is None and inner.under_backward is not None:
            above = inner.under_backward.backward_name
        places.append((inner.forward_name, above))
        inner = inner.parent
    stack = None if pending.stack == NO_STACK else pending.stack
    return OpenCall(call.forward_name, record, places, stack)


def place_backward(files: StepFiles, call: Call) -> None:
    """The backward call stands where the forward call stood, one world over."""
    if files.has_placed(call.backward_name):
        return
    around = call.parent if call.parent is not None else call.under_backward
    if around is None:
        files.place(call.backward_name, None)
    else:
        place_backward(files, around)
        files.place(call.backward_name, around.backward_name)
