"""Backward calls: when they begin and end, and what of them is written down."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import partial
from operator import is_
from typing import Any

from msprobe_collector.config.settings import Config
from msprobe_collector.record.calls import Call, Pending
from msprobe_collector.record.framework import NO_PASS, Item
from msprobe_collector.record.gradients import Backward, Events, OpenBackwards, trace, watch
from msprobe_collector.record.ledger import Ledger
from msprobe_collector.record.overflow import is_origin_backward
from msprobe_collector.record.parameters import ParameterGradients


class BackwardCalls:
    """Watches the gradients of recorded calls until the step is over.

    They may arrive after ``stop``: the hooks sit on the nodes of the graph, not in torch.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._framework = ledger.framework
        self.open = OpenBackwards()
        self._events = Events(self._begin, self.end, ledger.report, self._framework.unseen)
        self.parameters = ParameterGradients(
            self._framework,
            self._describe_parameter,
            ledger.add_gradients,
            ledger.set_latest_gradients,
        )
        self.take(ledger.config)
        self._watched: list[weakref.ref[Backward]] = []
        self._tasks: set[int] = set()

    def take(self, config: Config) -> None:
        """Record the sides that a configuration asks for."""
        self._sides = {side for side in ("input", "output") if config.collects("backward", side)}

    def watch(self, pending: Pending, outputs: Sequence[Any]) -> None:
        """Follow the gradients between the inputs and the ``outputs`` of a call."""
        call = pending.call
        ledger = self._ledger
        if not self._sides:
            return
        if not (call.path or ledger.selection.lists_backward(call)):
            return  # a module shows where recomputed calls belong, even if it is not kept itself
        edges = pending.edges or []
        if call.path:  # of modules, dumps show the places that take a gradient
            edges = [edge for edge in edges if edge is not None]
            outputs = [tensor for tensor in outputs if self._framework.takes_gradient(tensor)]
        results = self._framework.results_of(outputs)
        graph = trace(self._framework, edges, results, pending.first_node)
        if graph.outputs:
            describe = partial(self._describe, call)
            if ledger.selection.keeps_all and len(self._sides) == 2:
                describe = partial(ledger.describe_gradient, call.backward_name)
            by_argument = bool(call.path) or not self._framework.shows_last_node
            add = self._framework.sum_of
            backward = Backward(call, len(edges), len(outputs), describe, add, by_argument)
            if ledger.flow is not None:
                ledger.flow.gradients.watch(graph, backward)
            self._watched.append(weakref.ref(backward))
            watch(graph, backward, self._events)

    def _describe(self, call: Call, gradient: Any, where: str) -> Item | None:
        """As the ledger does, what is of interest: nothing else is measured, let alone saved."""
        received = where.startswith(("input.", "output_gradients."))
        if ("input" if received else "output") not in self._sides:
            return None
        if not self._ledger.selection.may_keep_backward(call):
            return None
        return self._ledger.describe_gradient(call.backward_name, gradient, where)

    def are_awaited(self) -> bool:
        """Whether the graph of a recorded call is alive and has not run backward."""
        self._watched = [
            ref for ref in self._watched if (found := ref()) is not None and not found.done
        ]
        return bool(self._watched)

    def _begin(self, backward: Backward) -> None:
        ledger = self._ledger
        if backward.task != NO_PASS or not ledger.listening:
            return
        backward.task = self._framework.current_pass()
        if backward.task not in self._tasks:
            if not self._tasks:
                self.parameters.begin_pass()
            self._tasks.add(backward.task)
            self._framework.after_pass(partial(self._end_task, backward.task))
        self.open.add(backward)
        is_kept = ledger.selection.keep_backward(backward.call)  # the scope may begin here
        if is_kept and backward.call.path:
            ledger.place_backward(backward.call)

    def end(self, backward: Backward) -> None:
        """The last node of a call has run, or nothing more will."""
        if backward.done:
            return
        call = backward.call
        if call.path and self.open.has_inside(call):
            backward.is_over = True  # it is written down after what was called inside it
            return
        backward.settle()
        self.open.remove(backward)
        self._write(backward)
        around = self.open.waiting_for(call)
        if around is not None:
            self.end(around)

    def _write(self, backward: Backward) -> None:
        ledger = self._ledger
        call = backward.call
        if not ledger.listening or not ledger.selection.keep_backward(call):
            return
        ledger.place_backward(call)
        if call.path:
            self.parameters.note_backward(call.backward_name)
        ledger.selection.leave(call.backward_name)
        record = self._record(backward)
        if ledger.overflow is not None:
            ledger.items.settle()
            if not is_origin_backward(record):
                return
            ledger.count_overflow(call.backward_name)
        makers = [] if ledger.flow is None else ledger.flow.gradients.makers(backward, record)
        ledger.add_record(call.backward_name, record, makers)
        ledger.flush_if_due()

    def _record(self, backward: Backward) -> dict[str, Any]:
        """The established keys, and the gradients by argument where those do not show them."""
        record: dict[str, Any] = {}
        if "input" in self._sides:
            own, at_last_node = backward.received, backward.last_received
            self._add(record, backward, ("input", "output_gradients"), own, at_last_node)
        if "output" in self._sides:
            own, at_last_node = backward.sent, backward.last_sent
            self._add(record, backward, ("output", "input_gradients"), own, at_last_node)
        return record

    def _add(
        self,
        record: dict[str, Any],
        backward: Backward,
        keys: tuple[str, str],
        own: list[Item | None],
        at_last_node: Sequence[Item | None],
    ) -> None:
        established, by_argument = keys
        call = backward.call
        if call.path:
            record[established] = own
            return
        if backward.by_argument:
            at_last_node = own
            if established == "output":
                at_last_node = self._framework.as_established(call.forward_name, own)
        record[established] = at_last_node
        if by_argument in backward.elsewhere or not _alike(own, at_last_node):
            record[by_argument] = own

    def _end_task(self, task: int, is_running: bool = True) -> None:
        """A backward pass is over: what still waits for gradients gets none."""
        ledger = self._ledger
        try:
            with self._framework.unseen():
                for backward in reversed(self.open.of_task(task)):
                    self.end(backward)
            if is_running:
                self._framework.after_callbacks(partial(self._end_parameters, task))
            else:
                self._end_parameters(task)
        except Exception as error:
            ledger.report("The end of a backward pass", error)

    @property
    def passes(self) -> frozenset[int]:
        """Those that have begun and are not over."""
        return frozenset(self._tasks)

    def abandon(self, before: frozenset[int]) -> None:
        """An exception ended the passes that were not under way ``before``: nobody tells us.

        What they brought is not the latest any more once another pass comes.
        """
        for task in sorted(self._tasks - before, reverse=True):
            self._end_task(task, is_running=False)

    def _end_parameters(self, task: int) -> None:
        """Whoever sets gradients at the end of a pass has done so."""
        ledger = self._ledger
        try:
            with self._framework.unseen():
                self.parameters.end_pass(task, self._tasks)
                if ledger.flow is not None:
                    ledger.flow.name_gradients(self.parameters.callers())
                self._tasks.discard(task)
                if ledger.listening:
                    ledger.flush_if_due()
        except Exception as error:
            ledger.report("The end of a backward pass", error)

    def _describe_parameter(self, name: str, gradient: Any, where: str, parameter: Any) -> Any:
        """After ``stop`` only passes through recorded calls are of interest."""
        ledger = self._ledger
        if not ledger.active and self._framework.current_pass() not in (
            NO_PASS,
            *self._tasks,
        ):
            return None
        item = ledger.describe_gradient(name, gradient, where)
        if item is not None:
            ledger.items.keep_beside(gradient)
        if ledger.flow is not None and item is not None and parameter is not None:
            found = ledger.flow.gradients.of_parameter(parameter)
            ledger.note_maker(name, where, item, found)
        return item

    def settle(self) -> None:
        """End what has begun; hand out the gradients of parameters."""
        with self._framework.unseen():
            for backward in reversed(self.open.all()):
                self.end(backward)
        self.parameters.settle()
        self._tasks.clear()

    def end_step(self) -> None:
        self.settle()
        self.parameters.end_step()
        # A later step may go through their graph, too, where the same names are of other calls.
        for ref in self._watched:
            backward = ref()
            if backward is not None:
                backward.done = True
        self._watched = []


def _alike(own: list[Item | None], other: Sequence[Item | None]) -> bool:
    """The same tensors at the same places, whatever is missing behind the last one."""
    return all(map(is_, own, other)) and not any(own[len(other) :]) and not any(other[len(own) :])
