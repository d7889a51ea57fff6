"""What is written down of a step, and whether anything still is.

Nothing here may disturb the training: a disk that is full ends the recording with one sentence,
a record that cannot be made is left out with one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from msprobe_builder.dump.flow_layout import Place
from msprobe_collector.config.settings import Config
from msprobe_collector.record.calls import Call, Pending, described, place_backward, place_forward
from msprobe_collector.record.framework import Framework, Item
from msprobe_collector.record.lookout import Lookout
from msprobe_collector.record.origins import UNKNOWN, Found, Makers
from msprobe_collector.record.overflow import Overflow, is_finite
from msprobe_collector.record.selection import Selection, matches
from msprobe_collector.record.stack import Stacks
from msprobe_collector.record.watcher import Watcher
from msprobe_collector.signals import is_of_signal
from msprobe_collector.write.step_files import OpenCall, StepFiles, tensor_directory

_log = logging.getLogger("msprobe_collector")
_FLUSH_RECORDS = 2000
_FLUSH_SECONDS = 1.0
_GRADIENTS = ".parameters_grad"


class Ledger:
    """The files of the present step and the state that all hooks share."""

    def __init__(self, config: Config, framework: Framework, estimate: bool = False) -> None:
        self.framework = framework
        self._estimate = estimate
        self.config = config
        self.active = False  # calls are recorded
        self.listening = False  # gradients of recorded calls are, until the step is over
        self.finished = False  # nothing will be recorded any more
        self.is_incomplete = False  # what was recorded last could not all be written
        self.belongs_to_parent = False  # this process was forked from the one that records
        self.lock = threading.RLock()
        # Single files where there are few, or where other tools are to read them.
        in_one_file = config.task == "tensor" and config.layout == "one_file"
        self.tensor_files = framework.make_files(in_one_file)
        measures = config.task != "structure"
        self.items = framework.make_describer(config.summary_mode, self.tensor_files, measures)
        self.items.estimate = estimate
        self.items.slices = config.slices
        self.flow = framework.make_flow() if config.records_flow else None
        self._makers: dict[tuple[str, str, int], Found] = {}  # of gradients of parameters
        self.selection = _selection(config)
        self.overflow = Overflow(config.overflow_nums) if config.task == "overflow_check" else None
        self.stacks = Stacks()
        self._saves_all = config.task == "tensor"
        self._files: StepFiles | None = None
        self._directory: Path | None = None
        self._last_flush = 0.0
        self._failures: set[str] = set()
        self._entered: dict[int, Pending] = {}  # calls that have not returned, by identity
        self._moves = 0  # how often a call was entered or left
        self._lookout = Lookout(self)
        self.watcher: Watcher | None = None

    def watch(self, watcher: Watcher) -> None:
        """Tell ``watcher`` of all records from the next step on."""
        self.watcher = watcher

    def take(self, config: Config) -> None:
        """Choose by another configuration from the next step on."""
        self.config = config
        self.items.slices = config.slices
        self.selection = _selection(config)

    # -- steps --------------------------------------------------------------------------------

    def open_step(self, directory: Path) -> None:
        """Records go to ``directory``; the files are made when the first record comes."""
        if self._directory != directory:
            self._directory = directory
            self.tensor_files.directory = tensor_directory(directory)
        if self.watcher is not None:
            self.watcher.open_step(directory)
        self._lookout.begin()

    def close_step(self) -> None:
        """Finish the files of the step."""
        self.flush()
        self.tensor_files.end_step()
        self.selection.end_step()
        self._makers.clear()
        self._entered.clear()
        if self.watcher is not None:
            self._guarded(self.watcher.end_step)
        if self._files is not None:
            with self.lock:  # the lookout may be writing
                self._files.close()
                self._files = None
        if self.items.sketches is not None:
            self.items.sketches.end_step()
        if self.flow is not None:
            self.flow.end_step()
            self._guarded(self.flow.rows.close)
        self._directory = None
        self.stacks = Stacks()

    def close(self) -> None:
        """Finish what writes beside the program."""
        self._lookout.end()
        if self.watcher is not None:
            self.watcher.close()
        self.tensor_files.close()

    @property
    def files(self) -> StepFiles:
        if self._files is None:
            with self.lock:  # the first records may come from several threads at once
                if self._files is None:
                    self._files = self._new_files()
        return self._files

    def _new_files(self) -> StepFiles:
        assert self._directory is not None, "open a step before recording"
        config = self.config
        saves = self._saves_all or bool(config.tensor_list) or self.overflow is not None
        self._last_flush = time.monotonic()
        files = StepFiles(
            self._directory,
            config.task,
            config.level,
            self.framework.name,
            saves,
            self._estimate,
            None if self.items.sketches is None else self._take_sketches,
            extra_info=config.extra_info,
        )
        if self.flow is not None:
            self.flow.rows.open(self._directory, self._estimate)
        return files

    def _take_sketches(self) -> npt.NDArray[Any]:
        assert self.items.sketches is not None
        rows: npt.NDArray[Any] = self.items.sketches.take()
        if self.watcher is not None:
            self.watcher.take(rows)
        return rows

    @property
    def is_open(self) -> bool:
        """Whether a step has begun and is not over."""
        return self._directory is not None

    @property
    def open_files(self) -> StepFiles | None:
        """The files of the step if anything was recorded in it."""
        return self._files

    def flush(self, open_calls: Sequence[OpenCall] = (), is_over: bool = False) -> None:
        """Write what has come, and ``open_calls`` until the next flush; all, if it ``is_over``."""
        with self.lock:
            self._last_flush = time.monotonic()
            try:
                self.items.settle()
                self.tensor_files.flush()
                if self._files is not None:
                    self._files.flush(self.stacks.lines, open_calls)
                    if self.watcher is not None:
                        self.watcher.compare(self.stacks.lines, is_over)
                    if self.flow is not None:
                        self.flow.rows.flush()
            except OSError as error:
                self.report(str(self._directory), error)
            except Exception as error:
                self.report("A part of the step", error)

    def _guarded(self, run: Callable[[], None]) -> None:
        try:
            run()
        except Exception as error:
            self.report("A part of the step", error)

    # -- calls that take long -----------------------------------------------------------------

    def enter(self, pending: Pending) -> None:
        """A call of interest begins."""
        self._moves += 1
        self._entered[id(pending)] = pending

    def leave(self, pending: Pending) -> None:
        """It has returned or raised."""
        self._moves += 1
        self._entered.pop(id(pending), None)

    def position(self) -> object:
        """See :class:`Watched`."""
        if self.finished or not self.listening:
            return None
        return self._moves, 0 if self._files is None else self._files.calls

    def write_open_calls(self) -> None:
        """See :class:`Watched`. What waits for an accelerator that hangs is written without."""
        with self.lock:
            if self.position() is None:
                return
            if self.overflow is not None or not self._entered:
                self.flush()
                return
            try:
                files = self.files
                open_calls = [described(files, one) for one in list(self._entered.values())]
                if not self.items.is_settled:
                    files.show(self.stacks.lines, open_calls)
            except Exception as error:
                self.report("A call that has not returned", error)
                return
            self.flush(open_calls)

    def flush_if_due(self) -> None:
        if self._files is None:
            return
        due = self._files.waiting >= _FLUSH_RECORDS
        due = due or (self.watcher is not None and self.watcher.is_full)
        if due or time.monotonic() - self._last_flush > _FLUSH_SECONDS:
            self.flush()

    # -- records ------------------------------------------------------------------------------

    def add_record(self, name: str, record: Any, makers: Sequence[Makers] = ()) -> None:
        """A record of dump.json, and who made the tensors in it where that is recorded."""
        files = self.files
        if self.watcher is not None:
            self.watcher.add(name, record)
        if self.flow is None:
            files.add_record(name, record, self.items.is_settled)
            return
        with self.flow.rows.lock:
            files.add_record(name, record, self.items.is_settled)
            self.flow.rows.add(name, makers)

    def add_gradients(self, name: str, gradients: dict[str, Item]) -> None:
        if self._are_worth_it(gradients):
            record = {key: [item] for key, item in gradients.items()}
            self.add_record(name, record, self._makers_of(name, gradients))

    def set_latest_gradients(self, name: str, gradients: dict[str, Item]) -> None:
        if self._are_worth_it(gradients):
            record = {key: [item] for key, item in gradients.items()}
            self.files.set_latest(name, record)
            if self.watcher is not None:
                self.watcher.add(name, record)
            if self.flow is not None:
                self.flow.rows.set_latest(name, self._makers_of(name, gradients))

    def note_maker(self, name: str, where: str, item: Item, found: Found) -> None:
        """Who made the gradient of the parameter ``where``, which ``item`` describes."""
        self._makers[name, where.rpartition(".")[2], id(item)] = found

    def _makers_of(self, name: str, gradients: dict[str, Item]) -> list[Makers]:
        if self.flow is None:
            return []
        stem = name.partition(_GRADIENTS)[0] + _GRADIENTS
        found = (self._makers.get((stem, key, id(item))) for key, item in gradients.items())
        return [(Place.PARAMETERS_GRAD, [one or UNKNOWN for one in found])]

    def _are_worth_it(self, gradients: dict[str, Item]) -> bool:
        if self.overflow is None:
            return True
        self.items.settle()
        return not is_finite(gradients)

    def describe_gradient(self, name: str, gradient: Any, where: str) -> Item | None:
        """The record of a gradient of the call ``name``; None when nothing is recorded now.

        Call inside :func:`unseen`.
        """
        if not self.listening or self.framework.is_capturing():
            return None
        try:
            path = self.save_path(name)
            return self.items.tensor(gradient, path and f"{path}.{where}", born=True)
        except Exception as error:
            self.report(name, error)
            return None

    def place_forward(self, call: Call) -> None:
        if self.config.with_modules and self.config.extra_info:
            if self.watcher is not None:
                self.watcher.place(call)
            place_forward(self.files, call)

    def place_backward(self, call: Call) -> None:
        if self.config.with_modules and self.config.extra_info:
            place_backward(self.files, call)

    def save_path(self, name: str) -> str | None:
        """Where the tensors of a call are saved, None when they are not."""
        if self._saves_all or self.watcher is not None:
            return name
        if self.config.tensor_list and any(matches(t, name) for t in self.config.tensor_list):
            return name
        return None

    def count_overflow(self, name: str) -> None:
        assert self.overflow is not None
        _log.warning("%s overflowed: its inputs were finite, its output is not.", name)
        if self.overflow.count():
            self._end()
            _log.warning(
                "overflow_nums = %d reached; the training goes on without recording.",
                self.config.overflow_nums,
            )

    # -- failures -----------------------------------------------------------------------------

    def report(self, name: str, error: BaseException) -> None:
        """One record failed; say so once per kind of failure and go on."""
        if is_of_signal(error):
            self.framework.become_visible()  # it may have come while that was left
            raise error
        if isinstance(error, OSError):
            self._give_up_writing(error, name)
            return
        first = (str(error).splitlines() or [""])[0]
        kind = f"{name.split('.')[0]}{type(error).__name__}{first}"
        if kind not in self._failures:
            self._failures.add(kind)
            _log.warning("%s was not recorded: %s: %s", name, type(error).__name__, first)
            _log.debug("where it failed:", exc_info=error)

    def give_up(self, reason: str) -> None:
        """Record nothing any more; what was written before is kept."""
        if not self.finished:
            _log.warning("%s; nothing is recorded any more and the training goes on.", reason)
        self._end()

    def _give_up_writing(self, error: OSError, place: object) -> None:
        reason = error.strerror or error
        self.give_up(f"{error.filename or place} cannot be written: {reason}")
        self.is_incomplete = True

    def give_up_silently(self) -> None:
        """In a forked process, whose parent writes these very files and holds their locks."""
        self._end()
        self.belongs_to_parent = True
        self._files = None
        if self.flow is not None:
            self.flow.rows.forget()
        self.lock = threading.RLock()
        self.tensor_files = self.framework.make_files(False)

    def _end(self) -> None:
        self.finished = True
        self.active = self.listening = False


def _selection(config: Config) -> Selection:
    return Selection(config.names, config.scope, config.risk_level if config.with_apis else "ALL")
