"""The pass by which torch's pipelines find out shapes, before their first step: no training.

It runs the stages on memory that nobody has written, or with made-up gradients, and sends
shapes to other ranks. What the program means begins behind it.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import torch

from msprobe_collector.intercept.redirect import Redirect
from msprobe_collector.record.session import Session

_SCHEDULES = "torch.distributed.pipelining.schedules"
_FIND_SHAPES = (
    ("PipelineScheduleSingle", "_initialize_stage"),
    ("PipelineScheduleMulti", "_initialize_stages"),
)


class ShapePasses:
    """Leaves these passes out, between install and remove."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._redirects: list[Redirect] = []

    def install(self) -> None:
        schedules = sys.modules.get(_SCHEDULES)  # whoever has a pipeline has imported it
        if schedules is None:
            return
        if not self._redirects:
            self._redirects = [
                Redirect(function, self._hidden, is_compiling=torch.compiler.is_compiling)
                for kind, name in _FIND_SHAPES
                if isinstance(
                    function := getattr(getattr(schedules, kind, None), name, None),
                    types.FunctionType,
                )
            ]
        for redirect in self._redirects:
            redirect.install()

    def remove(self) -> None:
        for redirect in self._redirects:
            redirect.remove()

    def _hidden(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        threads = self._session.threads
        before, threads.hides_calls = threads.hides_calls, True
        threads.communication_depth += 1
        try:
            return original(*args, **kwargs)
        finally:
            threads.communication_depth -= 1
            threads.hides_calls = before
