"""Backward calls: when they begin and end, and what of them is written down."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from msprobe_collector.record.calls import Pending
from msprobe_collector.record.gradients import Backward, OpenBackwards, trace, watch
from msprobe_collector.record.ledger import Ledger
from msprobe_collector.record.overflow import is_origin_backward
from msprobe_collector.record.parameters import ParameterGradients


class BackwardCalls:
    """Watches the gradients of recorded calls until the step is over.

    They may arrive after ``stop``: the hooks sit on the nodes of the graph, not in torch.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.open = OpenBackwards()
        self.parameters = ParameterGradients(
            self._describe_parameter, ledger.add_gradients, ledger.set_latest_gradients
        )
        self._watched: list[weakref.ref[Backward]] = []
        self._tasks: set[int] = set()

    def watch(self, pending: Pending, outputs: Sequence[torch.Tensor]) -> None:
        """Follow the gradients between the inputs and the ``outputs`` of a call."""
        call = pending.call
        ledger = self._ledger
        if not ledger.config.collects_direction("backward"):
            return
        edges = pending.edges or []
        graph = trace(edges, outputs, pending.first_node)
        if graph.outputs:
            describe = partial(ledger.describe_gradient, call.backward_name)
            backward = Backward(call, len(edges), len(outputs), describe)
            self._watched.append(weakref.ref(backward))
            watch(graph, backward, self._begin, self.end, ledger.report)

    def are_awaited(self) -> bool:
        """Whether the graph of a recorded call is alive and has not run backward."""
        self._watched = [
            ref for ref in self._watched if (found := ref()) is not None and not found.done
        ]
        return bool(self._watched)

    def _begin(self, backward: Backward) -> None:
        ledger = self._ledger
        if backward.task != -1 or not ledger.listening:
            return
        backward.task = torch._C._current_graph_task_id()
        if backward.task not in self._tasks:
            self._tasks.add(backward.task)
            torch.autograd.Variable._execution_engine.queue_callback(
                partial(self._end_task, backward.task)
            )
        self.open.add(backward)
        if backward.call.path and ledger.selection.keep_backward(backward.call):
            ledger.place_backward(backward.call)

    def end(self, backward: Backward) -> None:
        """The last node of a call has run, or nothing more will."""
        if backward.done:
            return
        ledger = self._ledger
        backward.settle()
        self.open.remove(backward)
        call = backward.call
        if not ledger.listening or not ledger.selection.keep_backward(call):
            return
        ledger.place_backward(call)
        if call.path:
            self.parameters.note_backward(call.backward_name)
        ledger.selection.leave(call.backward_name)
        record: dict[str, Any] = {}
        if ledger.config.collects("backward", "input"):
            record["input"] = backward.received
        if ledger.config.collects("backward", "output"):
            record["output"] = backward.sent
        if ledger.overflow is not None:
            ledger.items.settle()
            if not is_origin_backward(record):
                return
            ledger.count_overflow(call.backward_name)
        ledger.add_record(call.backward_name, record)
        ledger.flush_if_due()

    def _end_task(self, task: int) -> None:
        """A backward pass is over: what still waits for gradients gets none."""
        ledger = self._ledger
        try:
            with torch._C.DisableTorchFunction():
                for backward in self.open.of_task(task):
                    self.end(backward)
                self.parameters.end_pass()
                ledger.items.forget()  # reducers write to gradients from C++
                self._tasks.discard(task)
                if ledger.listening:
                    ledger.flush_if_due()
        except Exception as error:
            ledger.report("The end of a backward pass", error)

    def _describe_parameter(self, name: str, gradient: torch.Tensor, where: str) -> Any:
        """After ``stop`` only passes through recorded calls are of interest."""
        ledger = self._ledger
        if not ledger.active and torch._C._current_graph_task_id() not in (-1, *self._tasks):
            return None
        return ledger.describe_gradient(name, gradient, where)

    def settle(self) -> None:
        """End what has begun; hand out the gradients of parameters."""
        for backward in self.open.all():
            self.end(backward)
        self.parameters.settle()
        self._tasks.clear()

    def end_step(self) -> None:
        self.settle()
        self.parameters.end_step()
        self._watched = []
