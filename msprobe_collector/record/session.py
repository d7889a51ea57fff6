"""Everything between start and stop: numbers calls, measures them and writes them down."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

from msprobe_builder.dump.flow_layout import Place
from msprobe_collector.config.settings import Config
from msprobe_collector.record.backward_calls import BackwardCalls
from msprobe_collector.record.calls import Call, Held, Pending, ThreadState
from msprobe_collector.record.framework import NO_PASS, Framework
from msprobe_collector.record.garbage import RareGarbage
from msprobe_collector.record.ledger import Ledger
from msprobe_collector.record.origins import Makers
from msprobe_collector.record.overflow import attach_inputs, is_origin
from msprobe_collector.record.stack import NO_STACK


class Session:
    """The state of one debugger; all hooks report to it."""

    def __init__(self, config: Config, framework: Framework, estimate: bool = False) -> None:
        self.framework = framework
        self.threads = ThreadState()
        self.ledger = Ledger(config, framework, estimate)
        self.backwards = BackwardCalls(self.ledger)
        self.items = self.ledger.items
        self.flow = self.ledger.flow
        self.parameters = self.backwards.parameters
        self.report = self.ledger.report
        self._collect(config)
        self._garbage = RareGarbage(self.flow is not None)
        self._counters: defaultdict[str, Iterator[int]] = defaultdict(count)

    def _collect(self, config: Config) -> None:
        self.config = config
        self.collects_gradients = config.collects_direction("backward")
        self._collects_forward = config.collects_direction("forward")
        self._collects_input = config.collects("forward", "input")
        self._collects_output = config.collects("forward", "output")

    def take(self, config: Config) -> None:
        """Choose by another configuration of the same task; between two steps."""
        self._collect(config)
        self.ledger.take(config)
        self.backwards.take(config)

    @property
    def active(self) -> bool:
        return self.ledger.active

    # -- steps --------------------------------------------------------------------------------

    def begin(self, directory: Path) -> None:
        """Record into ``directory`` from here on."""
        self.ledger.open_step(directory)
        self.items.forget_step()
        self.ledger.active = self.ledger.listening = True
        self._garbage.begin()

    def pause(self) -> None:
        """Write everything that is known; gradients may still come."""
        ledger = self.ledger
        try:
            self.backwards.settle()
            ledger.active = False
            if not self.backwards.are_awaited():
                self.parameters.release()
            ledger.flush(is_over=True)
            self.items.forget_step()
            if self.flow is not None:
                self.flow.end_window()
        finally:
            self._garbage.end()  # now that less is there to be looked through
        if not self.config.async_dump:
            ledger.tensor_files.drain()

    def close_step(self) -> None:
        """Finish the files of the step and start counting anew."""
        ledger = self.ledger
        self._garbage.end()
        self.backwards.end_step()
        ledger.active = ledger.listening = False
        ledger.close_step()
        self.items.forget_step()
        if not self.config.async_dump:
            ledger.tensor_files.drain()
        self._counters.clear()

    # -- calls --------------------------------------------------------------------------------

    def next_number(self, stem: str) -> int:
        """How many calls had this name before in the step."""
        return next(self._counters[stem])

    def api_call(self, label: str) -> tuple[Call, FrameType | None, int]:
        """A numbered API call below the innermost open module, with that module's stack."""
        parent, base, below = self.threads.innermost()
        name = f"{label}.{self.next_number(label)}"
        call = Call(f"{name}.forward", f"{name}.backward", parent, label=label)
        if parent is None:
            call.under_backward = self.recomputed_in("")
        return call, base, below

    def recomputed_in(self, path: str) -> Call | None:
        """Whose backward asks for a call at ``path`` that no module makes ("" for an API)."""
        if self.framework.current_pass() == NO_PASS:
            return None
        region = self.threads.region
        return region.call if region is not None else self.backwards.open.enclosing(path)

    def enter(
        self,
        call: Call,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        stack: int,
        changes: bool = False,
        with_gradients: bool = True,
    ) -> Pending | None:
        """Describe what goes into a call, which may change it; None if it is of no interest.

        Call inside ``unseen``, as :meth:`leave`.
        """
        ledger = self.ledger
        call.kept = ledger.selection.keep(call)
        if not call.kept and (ledger.selection.keeps_all or not with_gradients):
            return None
        pending = Pending(call, stack)
        if ledger.watcher is not None:
            ledger.watcher.copies = changes
        inputs: list[Any] = []
        if call.kept and self._collects_input:
            path = ledger.save_path(call.forward_name)
            describe = self.items.describe
            self.items.within = call.forward_name
            pending.record["input_args"] = [
                describe(value, path and f"{path}.input.{position}", inputs)
                for position, value in enumerate(args)
            ]
            pending.record["input_kwargs"] = {
                key: describe(value, path and f"{path}.kwargs.{key}", inputs)
                for key, value in kwargs.items()
            }
            self.items.within = ""
        else:
            self.framework.collect_tensors((args, kwargs), inputs)
        pending.has_tensors = bool(inputs)
        if ledger.watcher is not None:
            ledger.watcher.copies = False
        if self.flow is not None:
            communicates = not with_gradients
            pending.flow = self.flow.enter(call, inputs, args, kwargs, communicates)
        if ledger.overflow is not None:
            pending.held = Held(*self.framework.held((list(args), dict(kwargs)), changes))
        if with_gradients:
            pending.edges = self.framework.edges_of(inputs) if self.framework.builds_graph() else []
        pending.first_node = self.framework.next_node()
        if call.kept:
            ledger.enter(pending)
        return pending

    def leave(self, pending: Pending, result: Any, parameters: dict[str, Any] | None) -> None:
        """Describe what came out of a call, write it down and watch for its gradients."""
        ledger = self.ledger
        call = pending.call
        ledger.leave(pending)
        outputs: list[Any] = []
        if call.encloses and not call.kept and ledger.selection.lists(call):
            call.kept = True
            pending.record.update(input_args=[], input_kwargs={})
        if call.kept and self._collects_output:
            path = ledger.save_path(call.forward_name)
            self.items.within = call.forward_name
            pending.record["output"] = self.items.describe(
                _as_results(result), path and f"{path}.output", outputs, born=True
            )
            self.items.within = ""
        else:
            self.framework.collect_tensors(result, outputs)
        if not call.path and not outputs and not pending.has_tensors:
            return  # an API that neither reads nor makes values
        if self.flow is not None:
            self.flow.leave(pending.flow, call, outputs)
        if call.kept:
            self.place_call(pending)
            if self._collects_forward:
                self._add_forward(pending, result, parameters)
        ledger.selection.leave(call.forward_name)
        watched = pending.edges is not None and self.framework.builds_graph()
        if watched and (self.threads.region is None or self.framework.runs_backward()):
            self.backwards.watch(pending, outputs)
        ledger.flush_if_due()

    def place_call(self, pending: Pending | None) -> None:
        """Write down where a recorded call stands; a module's comes before what it calls."""
        if pending is None or not pending.call.kept:
            return
        self.ledger.place_forward(pending.call)
        if pending.stack != NO_STACK:
            self.ledger.files.add_stack(pending.call.forward_name, pending.stack)
            if self.ledger.watcher is not None:
                self.ledger.watcher.note_stack(pending.call.forward_name, pending.stack)
            pending.stack = NO_STACK

    def _add_forward(
        self, pending: Pending, result: Any, parameters: dict[str, Any] | None
    ) -> None:
        ledger = self.ledger
        record = pending.record
        name = pending.call.forward_name
        if parameters is not None:
            path = ledger.save_path(name)
            record["parameters"] = {
                key: self.items.tensor(value, path and f"{path}.parameters.{key}")
                for key, value in parameters.items()
            }
            if self.flow is not None:
                pending.flow.makers.append(self.flow.parameters(parameters.values()))
        record["is_recompute"] = self.framework.is_recomputing()
        if ledger.overflow is not None:
            self.items.settle()
            if not is_origin(record):
                return
            if pending.held is not None:
                attach_inputs(self.items, record, pending.held, name)
            record["output"] = self.items.attach(
                record.get("output"), _as_results(result), f"{name}.output"
            )
            ledger.count_overflow(name)
        ledger.add_record(name, record, self._makers(pending))

    def _makers(self, pending: Pending) -> list[Makers]:
        """Who made the tensors that the record of a call shows."""
        if pending.flow is None:
            return []
        makers: list[Makers] = pending.flow.makers
        if self._collects_input and self._collects_output:
            return makers
        left_out = Place.OUTPUT if self._collects_input else Place.INPUT
        return [one for one in makers if one[0] != left_out]

    def fail(self, pending: Pending) -> None:
        """The call raised: keep what went in, and what it raised on its way."""
        name = pending.call.forward_name
        self.ledger.leave(pending)
        if not pending.call.kept or self.ledger.overflow is not None or not self.active:
            return
        try:
            self.place_call(pending)
            if self._collects_forward:
                pending.record["is_recompute"] = self.framework.is_recomputing()
                pending.record["output"] = []
                self.ledger.add_record(name, pending.record, self._makers(pending))
        except Exception as error:
            self.report(name, error)

    def capture(self, frame: FrameType | None, base: FrameType | None, below: int) -> int:
        if not self.config.extra_info:
            return NO_STACK
        return self.ledger.stacks.capture(frame, base, below)


def _as_results(result: Any) -> Any:
    """A tuple holds several results, by name where they have names; anything else is one."""
    return result if issubclass(type(result), tuple) else (result,)
