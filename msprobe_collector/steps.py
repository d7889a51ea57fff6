"""From start to stop, step by step: what a debugger does whatever the framework."""

from __future__ import annotations

import atexit
import logging
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from msprobe_collector.config.settings import REREAD, Config
from msprobe_collector.config.switch import switch_of
from msprobe_collector.errors import CollectorError
from msprobe_collector.record.session import Session
from msprobe_collector.report import describe_estimate, describe_step
from msprobe_collector.write.claim import own_folder
from msprobe_collector.write.step_files import StepFiles

if TYPE_CHECKING:
    from typing_extensions import Self

_log = logging.getLogger("msprobe_collector")


class Installed(Protocol):
    """What is put into the framework between start and stop."""

    def remove(self) -> None: ...

    def forget(self) -> None:
        """In a forked process: leave its calls alone."""


class Saved(Protocol):
    """The values of level debug."""

    def save(self, directory: Path, variable: Any, name: str, save_backward: bool) -> None: ...

    def close_step(self) -> None: ...


class Debugger:
    """Counts steps and frames them; one per process, reachable through the class as well.

    A framework adds ``_begin_recording``, which its ``start`` calls, and ``_rank``.
    """

    _current: Debugger | None = None
    _arguments: tuple[Any, ...] = ()
    _model: Any = None
    _saved: Saved | None = None
    _rank_id: int | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        if Debugger._current is None:
            Debugger._arguments = (args, kwargs)
            return super().__new__(cls)
        if Debugger._arguments != (args, kwargs):
            _log.warning(
                "There is a PrecisionDebugger in this process already; its settings stay. "
                "Call close() on it first to begin with others."
            )
        return cls._the_one()

    def _set_up(
        self,
        config: Config,
        session: Session,
        interception: Installed,
        estimate: bool,
        load: Callable[[], Config],
    ) -> None:
        """``load`` reads the configuration again, where it is to be followed."""
        self.config = config
        self._load = load
        self._changed: Config | None = None  # what the next step is recorded by
        self._session = session
        self._installed = interception
        self._switch = switch_of(config, self._reread)
        self._estimates = estimate
        self.estimated = (0, 0)  # bytes of records and of tensors, of the last step
        self._step = 0
        self._recording = False
        self._has_folder = False
        self._is_stopping = False  # an interrupt may come in the middle of it
        self._began = 0.0
        self._seconds = 0.0
        self._warned: set[str] = set()
        self._passed_over: set[bool] = set()  # for each start, whether ``step`` left it out

    # -- the interface ------------------------------------------------------------------------

    @classmethod
    def stop(cls) -> None:
        """Stop recording and write what was recorded."""
        self = cls._the_one()
        self._stop()
        self._stop_more()

    @classmethod
    def forward_backward_dump_end(cls) -> None:
        """The older name of :meth:`stop`."""
        cls.stop()

    @classmethod
    def step(cls) -> None:
        """The training step is over; numbers begin at zero again."""
        cls._the_one()._next_step()

    @classmethod
    def save(cls, variable: Any, name: str, save_backward: bool = True) -> None:
        """Record a value of your own, and its gradient; needs level debug."""
        self = cls._the_one()
        if self._saved is None:
            self._warn("save() has an effect at level debug only; nothing was saved.")
        elif self._selects_this() and not self._session.ledger.finished:
            try:
                self._saved.save(self._directory(), variable, name, save_backward)
            except OSError as error:
                self._session.report(name, error)

    @classmethod
    def set_init_step(cls, step: int) -> None:
        """Number steps from ``step`` on, after resuming from a checkpoint."""
        given: Any = step
        if isinstance(given, bool) or not isinstance(given, int) or given < 0:
            raise CollectorError(f"The first step is {step!r}; give a number from 0 on.")
        cls._the_one()._number_steps_from(step)

    @classmethod
    def close(cls) -> None:
        """Stop, finish all files, and allow another debugger in this process."""
        self = cls._the_one()
        self._stop()
        self._finish_step()
        self._guarded(self._session.ledger.close)
        self._close_more()
        self._session.ledger.selection.warn_of_misses()
        if self._passed_over == {True}:
            steps = list(self.config.step)
            self._warn(f"step selects {steps}; none of these was reached, nothing was recorded.")
        Debugger._current = None

    def __enter__(self) -> Self:
        if not self._recording:
            self._begin_recording(self._model)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    # -- recording ----------------------------------------------------------------------------

    @classmethod
    def _the_one(cls) -> Self:
        if Debugger._current is None:
            raise CollectorError("Create a PrecisionDebugger before calling its methods.")
        if not isinstance(Debugger._current, cls):
            raise CollectorError("Call close() on the debugger of the other framework first.")
        return Debugger._current

    def _begin_recording(self, model: Any) -> None:
        raise NotImplementedError

    def _is_rank(self, rank_id: int | None) -> None:
        """Take over the number of this process where the framework does not know it."""
        given: Any = rank_id
        if given is None:
            return
        if isinstance(given, bool) or not isinstance(given, int) or given < 0:
            raise CollectorError(f"rank_id is {rank_id!r}; give a number from 0 on.")
        self._rank_id = rank_id

    def _rank(self) -> int | None:
        """This process among those that train together, None when it trains alone."""
        raise NotImplementedError

    def _ranks(self) -> tuple[int, int] | None:
        """This process and how many train together, None when it trains alone."""
        return None

    def _number_steps_from(self, step: int) -> None:
        self._step = step

    def _stop_more(self) -> None:
        """Stop what the framework's debugger began beside the recording of calls."""

    def _close_more(self) -> None:
        """Undo what the framework's debugger installed when it was made."""

    def _begin(self, install: Callable[[], None]) -> None:
        self._began = time.monotonic()
        try:
            self._session.begin(self._directory())
            install()
        except Exception as error:
            self._session.report(f"Step {self._step}", error)
            self._stop()

    def _may_record(self) -> bool:
        self._stop()  # to its end, if an interrupt came into it
        if self._switch is not None and not self._switch.is_on():
            return False
        if self._changed is not None and self._session.ledger.open_files is None:
            self._take(self._changed)
        return not self._session.ledger.finished and self._selects_this()

    def _reread(self) -> None:
        self._changed = self._load()

    def _take(self, found: Config) -> None:
        """Follow what the file says now of what to record."""
        old, self._changed = self.config, None
        if "debug" in (old.level, found.level):
            found = replace(found, level=old.level)
        new = replace(old, **{key: getattr(found, key) for key in REREAD})
        if new != replace(found, dump_path=old.dump_path, dump_enable=old.dump_enable):
            self._warn("Only some keys are read again: docs/collect.md names them; others stay.")
        if new == old:
            return
        _log.info("The configuration has changed: step %d is recorded by it.", self._step)
        ledger = self._session.ledger
        if new.step != old.step:
            ledger.finished = bool(new.step) and self._step > new.step[-1]
        self.config = new
        self._session.take(new)

    def _next_batch(self) -> None:
        if self._recording:
            self._next_step()

    def _stop(self) -> None:
        if self._recording:
            self._recording, self._is_stopping = False, True
        if not self._is_stopping:
            return
        ledger = self._session.ledger
        try:
            self._installed.remove()
        finally:  # an interrupt waits until all is put back
            try:
                self._guarded(self._session.pause)
            finally:
                ledger.active = False
        self._seconds += time.monotonic() - self._began
        self._is_stopping = False
        if ledger.open_files is None and not ledger.finished:
            self._say_nothing_was_recorded()

    def _next_step(self) -> None:
        self._stop()
        self._finish_step()
        self._step += 1
        steps = self.config.step
        ledger = self._session.ledger
        if steps and self._step > steps[-1] and not ledger.finished:
            ledger.finished = True
            ledger.selection.warn_of_misses()
            _log.info("Step %d was the last one to record.", steps[-1])

    def _finish_step(self) -> None:
        ledger = self._session.ledger
        files = ledger.open_files
        self._guarded(self._session.close_step)
        if files is not None and not ledger.is_incomplete:
            self._guarded(lambda: self._say_what_was_recorded(files))
        ledger.tensor_files.saved_bytes = ledger.items.described_bytes = 0
        self._seconds = 0.0
        if self._saved is not None:
            self._guarded(self._saved.close_step)

    def _guarded(self, run: Callable[[], None]) -> None:
        """The training goes on whatever becomes of the recording."""
        try:
            run()
        except Exception as error:
            self._session.report(f"Step {self._step}", error)
        finally:
            self._session.framework.become_visible()

    def _selects_this(self) -> bool:
        """Whether ``step`` and ``rank`` select the present step and process."""
        is_left_out = bool(self.config.step) and self._step not in self.config.step
        self._passed_over.add(is_left_out)
        if is_left_out:
            return False
        rank = self._rank()
        if self.config.rank and (rank or 0) not in self.config.rank:
            if rank is None:
                self._warn(
                    f"rank selects {list(self.config.rank)}, but this run is not distributed and "
                    "counts as rank 0: nothing is recorded."
                )
            return False
        return True

    def _directory(self) -> Path:
        rank = self._rank()
        name = "rank" if rank is None else f"rank{rank}"
        if not self._has_folder and not self._estimates:
            self._has_folder = True
            self._take_folder(name, rank is not None)
        return self.config.dump_path / f"step{self._step}" / name

    def _take_folder(self, rank: str, shared: bool) -> None:
        """Before the first record: leave what an earlier run has written alone."""
        wanted = self.config.dump_path
        try:
            found = own_folder(wanted, self._step, rank, shared)
        except OSError:
            return  # whoever writes there says so
        if found != wanted:
            self.config = replace(self.config, dump_path=found)
            self._warn(f"{wanted} holds steps of an earlier run; this one is written to {found}.")

    def _say_what_was_recorded(self, files: StepFiles) -> None:
        """Where the step lies and what it holds, or would hold."""
        sizes = (files.calls, files.size)
        ledger = self._session.ledger
        if self._estimates:
            tensors = ledger.items.described_bytes
            folder = self.config.dump_path.absolute()
            ranks = self._ranks()
            if ranks is not None and self.config.rank:
                ranks = ranks[0], len(self.config.rank)
            steps = len(self.config.step) or 1
            self.estimated = (files.size, tensors)
            text = describe_estimate(
                folder, self._step, ranks, steps, *sizes, tensors, self._seconds
            )
        else:
            tensors = ledger.tensor_files.saved_bytes
            text = describe_step(files.directory, self._step, *sizes, tensors, self._seconds)
        _log.info("%s", text)

    def _say_nothing_was_recorded(self) -> None:
        if self.config.task == "overflow_check":
            _log.info("No overflow in step %d.", self._step)
        elif self.config.task != "structure":
            text = f"Nothing was recorded in step {self._step}"
            if self.config.level == "L0":
                text += (
                    ": level L0 records modules, and no module of the model that start() was given "
                    "was called. A program that calls functions on parameters is recorded with "
                    '"level": "L1" or "mix"'
                )
            self._warn(f"{text}.")
            self._session.ledger.selection.warn_of_misses()

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            _log.warning("%s", text)

    def _forget_in_child(self) -> None:
        """A forked process, such as a data loader's worker, records and writes nothing.

        Unless nothing had been begun: then it may be one that trains.
        """
        ledger = self._session.ledger
        if not self._recording and not ledger.is_open and self._saved is None:
            return
        self._recording = False
        ledger.give_up_silently()
        self._installed.forget()


def _after_fork() -> None:
    debugger = Debugger._current
    if debugger is not None:
        debugger._forget_in_child()


def _at_exit() -> None:
    debugger = Debugger._current
    if debugger is not None and not debugger._session.ledger.belongs_to_parent:
        debugger.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
