"""Everything between start and stop: numbers calls, measures them and writes them down."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from functools import partial
from types import FrameType
from typing import Any

import torch

from msprobe_collector.calls import Call, Pending, ThreadState, place_backward, place_forward
from msprobe_collector.config import Config
from msprobe_collector.gradients import (
    Backward,
    OpenBackwards,
    edges_of,
    is_recomputing,
    trace,
    watch,
)
from msprobe_collector.items import Item, Items, collect_tensors
from msprobe_collector.overflow import (
    Overflow,
    attach_inputs,
    hold,
    is_finite,
    is_origin,
    is_origin_backward,
)
from msprobe_collector.parameters import ParameterGradients
from msprobe_collector.selection import Selection, matches
from msprobe_collector.stack import NO_STACK, Stacks
from msprobe_collector.tensor_files import TensorFiles
from msprobe_collector.writer import StepFiles, tensor_directory

_log = logging.getLogger("msprobe_collector")
_FLUSH_RECORDS = 2000
_FLUSH_SECONDS = 1.0


class Session:
    """The state of one debugger; all hooks report to it."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.active = False
        self.finished = False  # nothing will be recorded any more
        self.threads = ThreadState()
        self.open_backwards = OpenBackwards()
        self.tensor_files = TensorFiles()
        self.items = Items(config.summary_mode == "md5", self.tensor_files)
        self.selection = Selection(config.names, config.scope)
        checks_overflow = config.task == "overflow_check"
        self.overflow = Overflow(config.overflow_nums) if checks_overflow else None
        self.parameters = ParameterGradients(self.describe_gradient, self._add_gradients)
        self._structure_only = config.task == "structure"
        self._saves_all = config.task == "tensor"
        self._saves_some = bool(config.tensor_list)
        self.collects_gradients = not self._structure_only and config.collects("backward", "output")
        self._lock = threading.RLock()
        self._counters: dict[str, int] = {}
        self._stacks = Stacks()
        self._files: StepFiles | None = None
        self._directory: Any = None
        self._last_flush = 0.0
        self._tasks: set[int] = set()
        self._failures: set[str] = set()

    # -- steps --------------------------------------------------------------------------------

    def open_step(self, directory: Any) -> None:
        """Records go to ``directory``; the files are made when the first record comes."""
        if self._directory != directory:
            self._directory = directory
            self.tensor_files.directory = tensor_directory(directory)

    @property
    def recorded_calls(self) -> int:
        return self._files.calls if self._files is not None else 0

    def close_step(self) -> None:
        """Finish the files of the step and start counting anew."""
        self.pause()
        if self._files is not None:
            self._files.close()
            self._files = None
        self._directory = None
        self._counters.clear()
        self._stacks = Stacks()

    def pause(self) -> None:
        """Write everything that is known; hooks that still fire find the session inactive."""
        self.parameters.finish()
        for backward in self.open_backwards.all():
            self.end_backward(backward)
        self._tasks.clear()
        self.flush()
        self.items.forget_step()
        if not self.config.async_dump:
            self.tensor_files.drain()

    def flush(self) -> None:
        with self._lock:
            self._last_flush = time.monotonic()
            self.items.settle()
            if self._files is not None:
                self._files.flush(self._stacks)

    def _flush_if_due(self) -> None:
        if self._files is None:
            return
        due = self._files.waiting >= _FLUSH_RECORDS
        if due or time.monotonic() - self._last_flush > _FLUSH_SECONDS:
            self.flush()

    @property
    def files(self) -> StepFiles:
        if self._files is None:
            config = self.config
            saves = self._saves_all or self._saves_some or config.task == "overflow_check"
            self._files = StepFiles(self._directory, config.task, config.level, saves)
            self._last_flush = time.monotonic()
        return self._files

    # -- calls --------------------------------------------------------------------------------

    def next_number(self, stem: str) -> int:
        with self._lock:
            number = self._counters.get(stem, 0)
            self._counters[stem] = number + 1
        return number

    def api_call(self, label: str) -> tuple[Call, FrameType | None, int]:
        """A numbered API call below the innermost open module, with that module's stack."""
        parent, base, below = self.threads.innermost()
        number = self.next_number(label)
        name = f"{label}.{number}"
        call = Call(f"{name}.forward", f"{name}.backward", parent)
        if parent is None and torch._C._current_graph_task_id() != -1:
            call.under_backward = self.open_backwards.enclosing("")
        return call, base, below

    def enter(
        self,
        call: Call,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        stack: int,
        changes: bool = False,
        with_gradients: bool = True,
    ) -> Pending | None:
        """Describe what goes into a call, which may change it; None if it is of no interest."""
        call.kept = self.selection.keep(call)
        if not call.kept and (self.selection.keeps_all or not with_gradients):
            return None
        pending = Pending(call, stack)
        inputs: list[torch.Tensor] = []
        if call.kept and not self._structure_only and self.config.collects("forward", "input"):
            path = self.save_path(call.forward_name)
            describe = self.items.describe
            pending.record["input_args"] = [
                describe(value, _at(path, f"input.{position}"), inputs)
                for position, value in enumerate(args)
            ]
            pending.record["input_kwargs"] = {
                key: describe(value, _at(path, f"kwargs.{key}"), inputs)
                for key, value in kwargs.items()
            }
        else:
            collect_tensors((args, kwargs), inputs)
        pending.has_tensors = bool(inputs)
        if self.overflow is not None:
            pending.held = hold(args, kwargs, changes)
        if with_gradients:
            pending.edges = edges_of(inputs) if torch.is_grad_enabled() else []
        pending.first_node = torch._C._autograd._get_sequence_nr()
        return pending

    def leave(self, pending: Pending, result: Any, parameters: dict[str, Any] | None) -> None:
        """Describe what came out of a call, write it down and watch for its gradients."""
        call = pending.call
        outputs: list[torch.Tensor] = []
        if call.kept and not self._structure_only and self.config.collects("forward", "output"):
            path = self.save_path(call.forward_name)
            results = result if type(result) in (tuple, list) else (result,)
            pending.record["output"] = [
                self.items.describe(value, _at(path, f"output.{position}"), outputs)
                for position, value in enumerate(results)
            ]
        else:
            collect_tensors(result, outputs)
        if not call.path and not outputs and not pending.has_tensors:
            return  # an API that neither reads nor makes values
        if call.kept:
            self.place_call(pending)
            if not self._structure_only and self.config.collects_direction("forward"):
                self._add_forward(pending, result, parameters)
        self.selection.leave(call.forward_name)
        if pending.edges is not None and torch.is_grad_enabled():
            self._watch(pending, outputs)
        self._flush_if_due()

    def place_call(self, pending: Pending | None) -> None:
        """Write down where a recorded call stands; a module's comes before what it calls."""
        if pending is None or not pending.call.kept:
            return
        self.place_forward(pending.call)
        if pending.stack != NO_STACK:
            self.files.add_stack(pending.call.forward_name, pending.stack)
            pending.stack = NO_STACK

    def _add_forward(
        self, pending: Pending, result: Any, parameters: dict[str, Any] | None
    ) -> None:
        record = pending.record
        name = pending.call.forward_name
        if parameters is not None and self.config.collects("forward", "input"):
            path = self.save_path(name)
            record["parameters"] = {
                key: self.items.describe(value, _at(path, f"parameters.{key}"), [])
                for key, value in parameters.items()
            }
        record["is_recompute"] = is_recomputing()
        if self.overflow is not None:
            self.items.settle()
            if not is_origin(record):
                return
            if pending.held is not None:
                attach_inputs(self.items, record, pending.held, name)
            results = result if type(result) in (tuple, list) else (result,)
            record["output"] = self.items.attach(
                record.get("output"), list(results), f"{name}.output"
            )
            self._count_overflow(name)
        self.files.add_record(name, record)

    def fail(self, pending: Pending) -> None:
        """The call raised: keep what went in."""
        if not pending.call.kept or self.overflow is not None or not self.active:
            return
        self.place_call(pending)
        if not self._structure_only and self.config.collects_direction("forward"):
            pending.record["is_recompute"] = is_recomputing()
            pending.record["output"] = []
            self.files.add_record(pending.call.forward_name, pending.record)

    # -- backward -----------------------------------------------------------------------------

    def _watch(self, pending: Pending, outputs: list[torch.Tensor]) -> None:
        call = pending.call
        if not self.config.collects_direction("backward"):
            return
        edges = pending.edges or []
        graph = trace(edges, outputs, pending.first_node)
        if graph.outputs:
            describe = partial(self.describe_gradient, call.backward_name)
            backward = Backward(call, len(edges), len(outputs), describe)
            watch(graph, backward, self.begin_backward, self.end_backward)

    def describe_gradient(self, name: str, gradient: torch.Tensor, where: str) -> Item | None:
        """The record of a gradient of the call ``name``; None when nothing is recorded now."""
        if not self.active or self._structure_only:
            return None
        try:
            return self.items.tensor(gradient.detach(), _at(self.save_path(name), where))
        except Exception as error:
            self.report(name, error)
            return None

    def _add_gradients(self, name: str, gradients: dict[str, Item]) -> None:
        if self.overflow is not None:
            self.items.settle()
            if is_finite(gradients):
                return
        self.files.add_record(name, {key: [item] for key, item in gradients.items()})

    def begin_backward(self, backward: Backward) -> None:
        if backward.task != -1 or not self.active:
            return
        backward.task = torch._C._current_graph_task_id()
        if backward.task not in self._tasks:
            self._tasks.add(backward.task)
            torch.autograd.Variable._execution_engine.queue_callback(
                partial(self._end_task, backward.task)
            )
        self.open_backwards.add(backward)
        if backward.call.path and self.selection.keep_backward(backward.call):
            self.place_backward(backward.call)

    def end_backward(self, backward: Backward) -> None:
        if backward.done:
            return
        backward.settle()
        self.open_backwards.remove(backward)
        call = backward.call
        if not self.active or not self.selection.keep_backward(call):
            return
        self.place_backward(call)
        if call.path:
            self.parameters.note_backward(call.backward_name)
        self.selection.leave(call.backward_name)
        if self._structure_only:
            return
        record: dict[str, Any] = {}
        if self.config.collects("backward", "input"):
            record["input"] = backward.received
        if self.config.collects("backward", "output"):
            record["output"] = backward.sent
        if self.overflow is not None:
            self.items.settle()
            if not is_origin_backward(record):
                return
            self._count_overflow(call.backward_name)
        self.files.add_record(call.backward_name, record)
        self._flush_if_due()

    def _end_task(self, task: int) -> None:
        """A backward pass is over: what still waits for gradients gets none."""
        with torch._C.DisableTorchFunction():
            for backward in self.open_backwards.of_task(task):
                self.end_backward(backward)
            self.parameters.end_pass()
            self._tasks.discard(task)
            if self.active:
                self._flush_if_due()

    def place_forward(self, call: Call) -> None:
        if self.config.with_modules:
            place_forward(self.files, call)

    def place_backward(self, call: Call) -> None:
        if self.config.with_modules:
            place_backward(self.files, call)

    # -- the rest -----------------------------------------------------------------------------

    def capture(self, frame: FrameType | None, base: FrameType | None, below: int) -> int:
        return self._stacks.capture(frame, base, below)

    def save_path(self, name: str) -> str | None:
        if self._saves_all:
            return name
        if self._saves_some and any(matches(text, name) for text in self.config.tensor_list):
            return name
        return None

    def _count_overflow(self, name: str) -> None:
        assert self.overflow is not None
        _log.warning("%s overflowed: its inputs were finite, its output is not.", name)
        if self.overflow.count():
            self.finished = True
            self.active = False
            _log.warning(
                "overflow_nums = %d reached; the training goes on without recording.",
                self.config.overflow_nums,
            )

    def report(self, name: str, error: Exception) -> None:
        """One record failed; say so once per kind of failure and go on."""
        text = f"{type(error).__name__}: {error}"
        kind = f"{name.split('.')[0]}{type(error).__name__}{error}"
        if kind not in self._failures:
            self._failures.add(kind)
            _log.warning("%s was not recorded: %s.", name, text, exc_info=error)


def _at(path: str | None, where: str) -> str | None:
    return None if path is None else f"{path}.{where}"
