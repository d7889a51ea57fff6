"""Functional collectives: what they return holds nothing until somebody waits for it.

Distributed tensors and compilers communicate this way. The call is recorded with its inputs and
written down, with its output, when the wait is over. Nobody waits earlier for our sake: that
could hang where the processes wait in different orders.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from msprobe_collector.intercept.redirect import Redirect
from msprobe_collector.record.calls import Pending
from msprobe_collector.record.items import collect_tensors
from msprobe_collector.record.session import Session
from msprobe_collector.unseen import unseen

WAIT = "Distributed.wait_tensor"


class FunctionalCollectives:
    """The calls that nobody has waited for, between install and remove."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._open: list[tuple[Pending, Any, set[int]]] = []
        self._redirect: Redirect | None = None

    def install(self) -> None:
        if dist.is_available() and dist.is_initialized():
            from torch.distributed import _functional_collectives as collectives

            function: Any = collectives.wait_tensor
            if self._redirect is None:
                self._redirect = Redirect(
                    function, self._wait, is_compiling=torch.compiler.is_compiling
                )
            self._redirect.install()

    def remove(self) -> None:
        if self._redirect is not None:
            self._redirect.remove()
        unfinished, self._open = self._open, []
        for pending, _, _ in unfinished:
            self._session.fail(pending)

    def hold(self, pending: Pending, result: Any) -> None:
        """Write the call down when all of its ``result`` has been waited for."""
        self._open.append((pending, result, _storages(result)))

    def waited_for(self, tensor: Any) -> None:
        """The numbers of ``tensor`` are there."""
        if not self._open:
            return
        arrived = _storages(tensor)
        left = []
        for pending, result, missing in self._open:
            missing -= arrived
            if missing:
                left.append((pending, result, missing))
            elif self._session.active:
                self._complete(pending, result)
        self._open = left

    def _complete(self, pending: Pending, result: Any) -> None:
        session = self._session
        try:
            with unseen():
                session.leave(pending, result, None)
        except Exception as error:
            session.report(pending.call.forward_name, error)

    def _wait(self, original: Callable[..., Any], tensor: Any) -> Any:
        result = original(tensor)
        self.waited_for(tensor)
        return result


def with_group(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments whose last one, the name of a group, is the group itself: names tell no ranks."""
    if not args or not isinstance(args[-1], str):
        return args
    known: Any = dist.distributed_c10d
    try:
        return (*args[:-1], known._resolve_process_group(args[-1]))
    except (AttributeError, RuntimeError, LookupError):
        return args


def _storages(value: Any) -> set[int]:
    tensors: list[torch.Tensor] = []
    with torch._C.DisableTorchFunction():
        collect_tensors(value, tensors)
        plain = (getattr(tensor, "elem", tensor) for tensor in tensors)
        return {tensor.untyped_storage()._cdata for tensor in plain}
