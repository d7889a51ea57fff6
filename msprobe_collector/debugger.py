"""``PrecisionDebugger``: the four lines in a training script."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import torch.distributed as dist
from torch import nn

from msprobe_collector.compiled import CompiledRegions, remove_mode
from msprobe_collector.config import load_config
from msprobe_collector.distributed import Communication
from msprobe_collector.errors import CollectorError
from msprobe_collector.intercept import CallMode, custom_functions
from msprobe_collector.modules import ModuleHooks
from msprobe_collector.phases import Phases
from msprobe_collector.saved import SavedValues
from msprobe_collector.session import Session

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
    ) -> None:
        if PrecisionDebugger._current is self:
            return
        self.config = load_config(config_path, task, dump_path, level, step)
        self._model = model
        self._step = 0
        self._recording = False
        self._warned: set[str] = set()
        self._session = Session(self.config)
        self._mode = CallMode(self._session)
        self._modules = ModuleHooks(self._session, self._mode)
        self._communication = Communication(self._session)
        self._phases = Phases(self._session)
        self._compiled = CompiledRegions(self._session.threads, self._mode)
        self._custom = custom_functions(self._session)
        self._saved = SavedValues(self.config) if self.config.level == "debug" else None
        PrecisionDebugger._current = self

    # -- the interface ------------------------------------------------------------------------

    @classmethod
    def start(cls, model: nn.Module | Sequence[nn.Module] | None = None) -> PrecisionDebugger:
        """Record from here on; levels L0 and mix need the model or a list of models."""
        self = cls._the_one()
        self._start(model if model is not None else self._model)
        return self

    @classmethod
    def stop(cls) -> None:
        """Stop recording and write what was recorded."""
        cls._the_one()._stop()

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
        elif self._selects_this():
            self._saved.save(self._directory(), variable, name, save_backward)

    @classmethod
    def set_init_step(cls, step: int) -> None:
        """Number steps from ``step`` on, after resuming from a checkpoint."""
        given: Any = step
        if isinstance(given, bool) or not isinstance(given, int) or given < 0:
            raise CollectorError(f"The first step is {step!r}; give a number from 0 on.")
        cls._the_one()._step = step

    @classmethod
    def close(cls) -> None:
        """Stop, finish all files, and allow another debugger in this process."""
        self = cls._the_one()
        self._stop()
        self._finish_step()
        self._session.tensor_files.close()
        self._session.selection.warn_of_misses()
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

    def _start(self, model: nn.Module | Sequence[nn.Module] | None) -> None:
        session = self._session
        if self._saved is not None:
            self._warn("At level debug only save() records; start() and stop() have no effect.")
            return
        models = self._checked_models(model)
        if self._recording or session.finished or not self._selects_this():
            return
        session.open_step(self._directory())
        session.items.forget_step()
        if self.config.with_modules:
            self._modules.install(models)
        if self.config.with_apis:
            self._communication.install()
            for redirect in self._custom:
                redirect.install()
        if self.config.level == "mix":
            self._phases.install()
        self._mode.__enter__()
        session.threads.sees_calls = True
        self._compiled.install()
        self._recording = session.active = True

    def _stop(self) -> None:
        if not self._recording:
            return
        session = self._session
        self._compiled.remove()
        remove_mode(self._mode)
        session.threads.sees_calls = False
        self._modules.remove()
        self._communication.remove()
        for redirect in self._custom:
            redirect.remove()
        self._phases.remove()
        session.threads.modules.clear()
        session.threads.hides_calls = False
        session.pause()
        self._recording = session.active = False
        if not session.recorded_calls and not session.finished:
            self._say_nothing_was_recorded()

    def _next_step(self) -> None:
        self._stop()
        self._finish_step()
        self._step += 1
        steps = self.config.step
        if steps and self._step > steps[-1] and not self._session.finished:
            self._session.finished = True
            self._session.selection.warn_of_misses()
            _log.info("Step %d was the last one to record.", steps[-1])

    def _finish_step(self) -> None:
        self._session.close_step()
        if self._saved is not None:
            self._saved.close_step()

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
        rank = _rank()
        if self.config.rank and (rank or 0) not in self.config.rank:
            if rank is None:
                self._warn(
                    f"rank selects {list(self.config.rank)}, but this run is not distributed and "
                    "counts as rank 0: nothing is recorded."
                )
            return False
        return True

    def _directory(self) -> Path:
        rank = _rank()
        name = "rank" if rank is None else f"rank{rank}"
        return self.config.dump_path / f"step{self._step}" / name

    def _say_nothing_was_recorded(self) -> None:
        if self.config.task == "overflow_check":
            _log.info("No overflow in step %d.", self._step)
        elif self.config.task != "structure":
            self._warn(f"Nothing was recorded in step {self._step}.")
            self._session.selection.warn_of_misses()

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            _log.warning("%s", text)

    def _forget_in_child(self) -> None:
        """A forked process, such as a data loader's worker, records nothing."""
        self._session.active = False
        self._session.finished = True
        remove_mode(self._mode)


def _rank() -> int | None:
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank()
    return None


def _after_fork() -> None:
    if PrecisionDebugger._current is not None:
        PrecisionDebugger._current._forget_in_child()


def _at_exit() -> None:
    if PrecisionDebugger._current is not None:
        PrecisionDebugger.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
