"""One call of a module or an API, and where it stands in the hierarchy."""

from __future__ import annotations

import threading
from types import FrameType
from typing import TYPE_CHECKING

from msprobe_collector.stack import NO_STACK

if TYPE_CHECKING:
    from msprobe_collector.gradients import Backward
    from msprobe_collector.session import Pending


class Call:
    """A running or finished call; ``parent`` is the module call, or phase, around it."""

    __slots__ = ("backward_name", "forward_name", "kept", "parent", "path", "under_backward")

    def __init__(
        self,
        forward_name: str,
        backward_name: str,
        parent: Call | None = None,
        under_backward: Call | None = None,
        path: str = "",
    ) -> None:
        self.forward_name = forward_name
        self.backward_name = backward_name
        self.parent = parent
        self.under_backward = under_backward  # it runs inside this call's backward
        self.path = path  # of a module: what stands before its class
        self.kept = False  # by the selection, with everything inside it


class OpenModule:
    """A module call that has not returned yet, with the stack it stands on."""

    __slots__ = ("base", "below", "call", "owner", "pending")

    def __init__(self, call: Call, base: FrameType | None, below: int, owner: object) -> None:
        self.call = call
        self.base = base
        self.below = below
        self.owner = owner
        self.pending: Pending | None = None


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

    def innermost(self) -> tuple[Call | None, FrameType | None, int]:
        if self.modules:
            top = self.modules[-1]
            return top.call, top.base, top.below
        return self.phase, None, NO_STACK


class OpenBackwards:
    """Backward calls that have begun and wait for more gradients, oldest first."""

    def __init__(self) -> None:
        self._open: dict[Backward, None] = {}

    def add(self, backward: Backward) -> None:
        self._open[backward] = None

    def remove(self, backward: Backward) -> None:
        self._open.pop(backward, None)

    def of_task(self, task: int) -> list[Backward]:
        return [backward for backward in list(self._open) if backward.task == task]

    def all(self) -> list[Backward]:
        return list(self._open)

    def enclosing(self, path: str) -> Call | None:
        """The module whose backward runs around a call at ``path`` ("" for an API)."""
        for backward in reversed(list(self._open)):
            candidate = backward.call
            if candidate.path and (not path or path.startswith(candidate.path + ".")):
                return candidate
        return None
