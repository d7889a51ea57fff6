"""``PrecisionDebugger``: the four lines in a training script."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import atexit
import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from torch import nn

from msprobe_collector.config.settings import WHOLE_TRAINING, load_config
from msprobe_collector.errors import CollectorError
from msprobe_collector.followers import followers_of
from msprobe_collector.intercept.custom_apis import CustomApis
from msprobe_collector.intercept.dataloader import FollowedDataLoader
from msprobe_collector.intercept.interception import Interception
from msprobe_collector.intercept.token_range import checked_range
from msprobe_collector.process import process_rank
from msprobe_collector.record.saved import SavedValues
from msprobe_collector.record.session import Session
from msprobe_collector.report import describe_estimate, describe_step, speak_up
from msprobe_collector.write.step_files import StepFiles

_log = logging.getLogger("msprobe_collector")


class PrecisionDebugger:
    """Records training steps; one per process, reachable through the class as well.

    ``start`` to ``stop`` is recorded, ``step`` closes a step. Nothing stays installed after
    ``stop``.
    """

    _current: PrecisionDebugger | None = None
    _arguments: tuple[Any, ...] = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> PrecisionDebugger:
        if cls._current is None:
            cls._arguments = (args, kwargs)
            return super().__new__(cls)
        if cls._arguments != (args, kwargs):
            _log.warning(
                "There is a PrecisionDebugger in this process already; its settings stay. "
                "Call close() on it first to begin with others."
            )
        return cls._current

    def __init__(
        self,
        config_path: str | Path | None = None,
        task: str | None = None,
        dump_path: str | Path | None = None,
        level: str | None = None,
        model: nn.Module | Sequence[nn.Module] | None = None,
        step: Sequence[int | str] | None = None,
        estimate: bool = False,
    ) -> None:
        """Settle what to record; see docs/collect.md. ``estimate`` writes nothing and says how
        large each step would be and how long it would take.
        """
        if PrecisionDebugger._current is self:
            return
        speak_up()
        self.config = load_config(config_path, task, dump_path, level, step)
        self._model = model
        self._step = 0
        self._estimates = estimate
        self._recording = False
        self._models: list[nn.Module] = []
        self._began = 0.0
        self._seconds = 0.0
        self._warned: set[str] = set()
        self._session = Session(self.config, estimate)
        self._interception = Interception(self._session)
        self._saved = SavedValues(self.config) if self.config.level == "debug" else None
        self._followers = followers_of(self.config)
        self._custom_apis = CustomApis(self._session)
        self._followed: FollowedDataLoader | None = None
        if self.config.follows_dataloader:
            self._followed = FollowedDataLoader(lambda: self._start(self._model), self._next_batch)
            self._followed.install()
        PrecisionDebugger._current = self

    # -- the interface ------------------------------------------------------------------------

    @classmethod
    def start(
        cls,
        model: nn.Module | Sequence[nn.Module] | None = None,
        token_range: Sequence[int] | None = None,
    ) -> PrecisionDebugger:
        """Record from here on; levels L0 and mix need the model or a list of models.

        With ``token_range`` only the calls of the model from the first number to the last are
        recorded, counted from 0. A second ``start`` with another model records both.
        """
        self = cls._the_one()
        self._start(model if model is not None else self._model, token_range)
        return self

    @classmethod
    def stop(cls) -> None:
        """Stop recording and write what was recorded."""
        self = cls._the_one()
        self._stop()
        if self.config.task in WHOLE_TRAINING:
            self._stop_following()

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
            self._saved.save(self._directory(), variable, name, save_backward)

    @classmethod
    def register_custom_api(cls, module: Any, api: str, api_prefix: str | None = None) -> None:
        """Record calls of ``module.api`` as an API of the name ``api_prefix.api``."""
        cls._the_one()._custom_apis.register(module, api, api_prefix)

    @classmethod
    def restore_custom_api(cls, module: Any, api: str) -> None:
        """Undo :meth:`register_custom_api`."""
        cls._the_one()._custom_apis.restore(module, api)

    @classmethod
    def module_dump(cls, module: nn.Module, dump_name: str) -> None:
        """Record the calls of one module as ``Module.{dump_name}`` until the end is said."""
        given: Any = (module, dump_name)
        if not isinstance(given[0], nn.Module) or not (isinstance(given[1], str) and given[1]):
            raise CollectorError("module_dump() takes a torch.nn.Module and a name for it.")
        self = cls._the_one()
        if self._recording:
            self._warn("module_dump() has no effect between start() and stop().")
        elif self._may_record():
            self._recording = True
            self._begin(lambda: self._interception.install_one(dump_name, module))

    @classmethod
    def module_dump_end(cls) -> None:
        """End what :meth:`module_dump` began."""
        cls._the_one()._stop()

    @classmethod
    def monitor(cls, model: nn.Module | Sequence[nn.Module]) -> None:
        """Follow the model at every call of the optimizer: task grad_probe, key monitor."""
        self = cls._the_one()
        if not self._followers:
            self._warn("monitor() needs task grad_probe or the key monitor; nothing is monitored.")
        for follower in self._followers:
            follower.monitor(model)

    @classmethod
    def set_init_step(cls, step: int) -> None:
        """Number steps from ``step`` on, after resuming from a checkpoint."""
        given: Any = step
        if isinstance(given, bool) or not isinstance(given, int) or given < 0:
            raise CollectorError(f"The first step is {step!r}; give a number from 0 on.")
        self = cls._the_one()
        self._step = step
        for follower in self._followers:
            follower.first_step = step

    @classmethod
    def close(cls) -> None:
        """Stop, finish all files, and allow another debugger in this process."""
        self = cls._the_one()
        self._stop()
        self._finish_step()
        self._guarded(self._session.ledger.tensor_files.close)
        self._guarded(self._custom_apis.restore_all)
        self._stop_following()
        if self._followed is not None:
            self._followed.remove()
        self._session.ledger.selection.warn_of_misses()
        PrecisionDebugger._current = None

    def __enter__(self) -> PrecisionDebugger:
        if not self._recording:
            self._start(self._model)
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
    def _the_one(cls) -> PrecisionDebugger:
        if PrecisionDebugger._current is None:
            raise CollectorError("Create a PrecisionDebugger before calling its methods.")
        return PrecisionDebugger._current

    def _start(
        self,
        model: nn.Module | Sequence[nn.Module] | None,
        token_range: Sequence[int] | None = None,
    ) -> None:
        if self._saved is not None:
            self._warn("At level debug only save() records; start() and stop() have no effect.")
            return
        if self.config.task in WHOLE_TRAINING:
            self._warn(f"With task {self.config.task} monitor(model) records, not start().")
            return
        models = self._checked_models(model)
        tokens = checked_range(token_range, model)
        if self._recording:
            more = [pair for pair in models if pair[1] not in self._models]
            self._models += [part for _, part in more]
            self._guarded(lambda: self._interception.add(more))
        elif self._may_record():
            self._recording = True
            self._models = [part for _, part in models]
            self._begin(lambda: self._interception.install(models, tokens))

    def _begin(self, install: Callable[[], None]) -> None:
        self._began = time.monotonic()
        try:
            self._session.begin(self._directory())
            install()
        except Exception as error:
            self._session.report(f"Step {self._step}", error)
            self._stop()

    def _may_record(self) -> bool:
        return not self._session.ledger.finished and self._selects_this()

    def _stop_following(self) -> None:
        for follower in self._followers:
            self._guarded(follower.stop)

    def _next_batch(self) -> None:
        if self._recording:
            self._next_step()

    def _stop(self) -> None:
        if not self._recording:
            return
        self._recording = False
        ledger = self._session.ledger
        self._interception.remove()
        self._guarded(self._session.pause)
        ledger.active = False
        self._seconds += time.monotonic() - self._began
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
        if files is not None:
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

    def _checked_models(
        self, model: nn.Module | Sequence[nn.Module] | None
    ) -> list[tuple[str, nn.Module]]:
        """Each model with the beginning of its modules' names."""
        if isinstance(model, nn.Module):
            return [("Module", model)]
        if model is None and self.config.with_modules:
            raise CollectorError(
                f"Level {self.config.level} records modules: call start(model) with the model."
            )
        models = list(model or ())
        if not all(isinstance(part, nn.Module) for part in models):
            raise CollectorError("start() takes a torch.nn.Module or a list of them.")
        return [(f"Module.{number}", part) for number, part in enumerate(models)]

    def _selects_this(self) -> bool:
        """Whether ``step`` and ``rank`` select the present step and process."""
        if self.config.step and self._step not in self.config.step:
            return False
        rank = process_rank()
        if self.config.rank and (rank or 0) not in self.config.rank:
            if rank is None:
                self._warn(
                    f"rank selects {list(self.config.rank)}, but this run is not distributed and "
                    "counts as rank 0: nothing is recorded."
                )
            return False
        return True

    def _directory(self) -> Path:
        rank = process_rank()
        name = "rank" if rank is None else f"rank{rank}"
        return self.config.dump_path / f"step{self._step}" / name

    def _say_what_was_recorded(self, files: StepFiles) -> None:
        """Where the step lies and what it holds, or would hold."""
        sizes = (files.calls, files.size)
        ledger = self._session.ledger
        if self._estimates:
            tensors = ledger.items.described_bytes
            folder = self.config.dump_path.absolute()
            text = describe_estimate(folder, self._step, *sizes, tensors, self._seconds)
        else:
            tensors = ledger.tensor_files.saved_bytes
            text = describe_step(files.directory, self._step, *sizes, tensors, self._seconds)
        _log.info("%s", text)

    def _say_nothing_was_recorded(self) -> None:
        if self.config.task == "overflow_check":
            _log.info("No overflow in step %d.", self._step)
        elif self.config.task != "structure":
            self._warn(f"Nothing was recorded in step {self._step}.")
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
        self._interception.forget()


def _after_fork() -> None:
    debugger = PrecisionDebugger._current
    if debugger is not None:
        debugger._forget_in_child()


def _at_exit() -> None:
    debugger = PrecisionDebugger._current
    if debugger is not None and not debugger._session.ledger.belongs_to_parent:
        PrecisionDebugger.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
