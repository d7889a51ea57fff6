"""Follows a training that does not know of it: which modules are the model, where steps end."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import atexit
import logging
import os
import sys
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from msprobe_builder.facts.fact import Fact, plain
from msprobe_collector.compiled.checker import CompiledChecker
from msprobe_collector.compiled.inside import look_inside
from msprobe_collector.config.settings import read_file
from msprobe_collector.coordinates import stands_at
from msprobe_collector.debugger import PrecisionDebugger
from msprobe_collector.errors import CollectorError
from msprobe_collector.intercept.redirect import Redirect
from msprobe_collector.process import process_rank
from msprobe_collector.report import speak_up
from msprobe_collector.run.cycle import Cycle
from msprobe_collector.run.notes import Note
from msprobe_collector.run.outermost import describe_models, is_trained, models_around
from msprobe_collector.run.settings import CONFIG, EXIT_STOPPED, Settings
from msprobe_collector.run.trace import Trace
from msprobe_collector.seed import seed_all
from msprobe_collector.signals import pass_on_if_of_signal
from msprobe_collector.steps import Debugger

_log = logging.getLogger("msprobe_collector")
_PATIENCE = 30.0  # seconds that a process waits for the others before it ends itself


def follow_as_told(path: str) -> None:
    """Follow what this process trains; ``path`` is the file that msprobe-run wrote."""
    if not Path(path).is_file():
        return  # what outlives its msprobe-run is not recorded
    settings, folder = Settings.read(Path(path)), Path(path).parent

    def make() -> PrecisionDebugger:
        return PrecisionDebugger(folder / CONFIG, estimate=settings.estimate)

    if settings.seed is not None:
        seed_all(settings.seed, settings.deterministic)
    if settings.as_msprobe:
        Note.of_process().write(folder)
        return  # the script records itself
    note = Note.of_process()
    if settings.compare_compiled:
        _compare_compiled(folder, note)
        if not settings.stop_after:
            return
    config = read_file(folder / CONFIG)
    if config.get("inside_compiled"):
        look_inside()  # before anything is compiled
    trace: Callable[[], Trace] | None = None
    if settings.trace:
        trace = partial(Trace, Path(config["dump_path"]))
    Follower(make, settings, folder, trace, note).install()


def _compare_compiled(folder: Path, note: Note) -> None:
    def tell(found: Fact | None) -> None:
        note.regions += 1
        if found is not None:
            note.departing += plain([found])
        note.write(folder)

    note.write(folder)
    CompiledChecker(tell).install()


def record_training(
    dump_path: str | Path | None = None,
    step: Sequence[int | str] = (0,),
    level: str = "mix",
    task: str | None = None,
    config_path: str | Path | None = None,
) -> Follower:
    """Record what this process trains from here on, without another line in the script.

    Arguments are those of :class:`PrecisionDebugger`. A step ends where the optimizers step, the
    model is the outermost module in training mode. ``stop()`` of the result ends it; the end of
    the process does so, too.
    """

    def make() -> PrecisionDebugger:
        return PrecisionDebugger(config_path, task, dump_path, level, step=step)

    follower = Follower(make)
    follower.install()
    return follower


class Follower:
    """Starts a :class:`PrecisionDebugger` when a model is called, stops it when optimizers step.

    The functions that it takes over are torch's own, for the time outside of models: what runs
    inside a call of a model runs as ever. The training goes on whatever becomes of it.
    """

    def __init__(
        self,
        make: Callable[[], PrecisionDebugger],
        settings: Settings | None = None,
        folder: Path | None = None,
        make_trace: Callable[[], Trace] | None = None,
        note: Note | None = None,
    ) -> None:
        """``make`` is asked when there is a model; ``folder`` takes notes for msprobe-run.

        With ``make_trace`` steps are traced, and no call is recorded.
        """
        self._make = make
        self._make_trace = make_trace
        self._trace: Trace | None = None
        self._settings = settings or Settings()
        self._folder = folder
        self._note = note or Note.of_process()
        self._cycle = Cycle()
        self._models: list[nn.Module] = []
        self._debugger: PrecisionDebugger | None = None
        self._records = True  # by this rank's coordinates
        self._step = 0
        self._is_noted = False  # that this step is recorded
        self._traced = False  # the call that runs is
        self._failed = False
        call: Any = nn.Module._wrapped_call_impl
        step: Any = torch.amp.GradScaler.step
        compiling = torch.compiler.is_compiling
        self._calls = Redirect(call, self._call, is_compiling=compiling)
        self._scalers = Redirect(step, self._scaled_step, is_compiling=compiling)
        self._handles: list[Any] = []
        self._trained: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        self._seen: weakref.WeakKeyDictionary[Optimizer, Any] = weakref.WeakKeyDictionary()

    def install(self) -> None:
        """Follow from here on."""
        self._write_note()
        atexit.register(self._note_what_came, True)  # before the debugger is closed
        self._handles = [
            register_optimizer_step_pre_hook(self._see),
            register_optimizer_step_post_hook(self._after_step),
        ]
        self._scalers.install()
        self._calls.install()

    def stop(self) -> None:
        """Finish the files and leave nothing in torch."""
        self._calls.remove()
        self._scalers.remove()
        for handle in (*self._handles, *self._seen.values()):
            handle.remove()
        self._handles = []
        if self._debugger is not None:
            self._note_what_came(is_over=True)
            if Debugger._current is self._debugger:
                self._debugger.close()
            self._debugger = None
        if self._trace is not None:
            self._trace.close()
            self._trace = None

    def _write_note(self) -> None:
        if self._folder is not None:
            self._note.write(self._folder)

    # -- the model ----------------------------------------------------------------------------

    def _call(self, original: Callable[..., Any], module: Any, *args: Any, **kwargs: Any) -> Any:
        """The call of an outermost module; those inside it are none of ours."""
        self._traced = False
        self._guarded(lambda: self._enter(module, args, kwargs))
        self._calls.remove()
        try:
            result = original(module, *args, **kwargs)
            if self._trace is not None and self._traced:
                self._guarded(partial(self._trace.returned, result))
            return result
        finally:
            if self._handles:
                self._calls.install()

    def _enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not is_trained(module, self._trained):
            return
        debugger = self._debugger
        if debugger is None:
            debugger = self._meet(module)
        elif all(module is not known for known in self._models) and not self._holds(module):
            self._models += [one for one in models_around(module)[0] if not self._holds(one)]
            _log.info("Another model is called: %s.", describe_models(self._models[-1:]))
        if self._cycle.is_over():
            self._end_step(debugger)
        if self._trace is not None:
            self._traced = True
            self._trace.called(self._models, args, kwargs)
        elif self._records:
            debugger.start(self._models[0] if len(self._models) == 1 else self._models)
            self._say_that_it_records(debugger)

    def _holds(self, module: nn.Module) -> bool:
        return any(module is part for model in self._models for part in model.modules())

    def _meet(self, module: nn.Module) -> PrecisionDebugger:
        """The first model is called: only now is there a process that trains."""
        if Debugger._current is not None:
            raise CollectorError("The script records itself, by a PrecisionDebugger of its own.")
        self._models, optimizers = models_around(module)
        self._cycle.expect(optimizers)
        rank = process_rank()
        speak_up()
        self._records = stands_at(self._settings.coordinates)
        self._debugger = debugger = self._make()
        if self._make_trace is not None and self._is_chosen(debugger, rank):
            self._trace = self._make_trace()
        self._note.trains, self._note.rank = True, rank
        self._write_note()
        ranks = debugger.config.rank
        if rank is not None and rank != (ranks[0] if ranks else 0):
            _log.setLevel(logging.WARNING)  # one of them speaks for all
        _log.info("The model is %s.", describe_models(self._models))
        return debugger

    def _is_chosen(self, debugger: PrecisionDebugger, rank: int | None) -> bool:
        ranks = debugger.config.rank
        return self._records and (not ranks or (rank or 0) in ranks)

    def _say_that_it_records(self, debugger: PrecisionDebugger) -> None:
        if debugger.records_now and not self._is_noted:
            self._is_noted = True
            self._note.recorded += 1
            self._note.dump = str(debugger.config.dump_path)
            self._write_note()

    # -- the optimizers -----------------------------------------------------------------------

    def _see(self, optimizer: Optimizer, *_: Any) -> None:
        """Hooks of all optimizers may not change while they run; those of this one run next."""
        if optimizer not in self._seen:
            self._seen[optimizer] = optimizer.register_step_pre_hook(self._before_step)

    def _before_step(
        self, optimizer: Optimizer, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]] | None:
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        if torch._C._current_graph_task_id() != -1:
            return None
        if not callable(closure):
            self._stop()
            self._trace_step(optimizer)
            return None
        # The model is called inside: only what the closure does is recorded.
        recorded = self._recorded(closure, optimizer)
        if "closure" in kwargs:
            return args, {**kwargs, "closure": recorded}
        return (args[0], recorded, *args[2:]), kwargs

    def _recorded(self, closure: Callable[[], Any], optimizer: Optimizer) -> Callable[[], Any]:
        def run() -> Any:
            result = closure()
            self._stop()
            self._trace_step(optimizer)
            return result

        return run

    def _trace_step(self, optimizer: Optimizer) -> None:
        if self._trace is not None:
            self._guarded(partial(self._trace.stepping, optimizer))

    def _after_step(self, optimizer: Optimizer, *_: Any) -> None:
        self._guarded(lambda: self._count(optimizer))

    def _scaled_step(
        self, original: Callable[..., Any], scaler: Any, optimizer: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """A scaler may leave the step out; that ends a step of the training all the same."""
        self._stop()
        result = original(scaler, optimizer, *args, **kwargs)
        if not self._cycle.has_stepped(optimizer):
            self._guarded(lambda: self._count(optimizer))
        return result

    def _count(self, optimizer: Optimizer) -> None:
        if self._debugger is None:
            return
        in_backward = torch._C._current_graph_task_id() != -1
        if in_backward and not self._cycle.has_begun:
            torch.autograd.Variable._execution_engine.queue_callback(self._stop)
        if self._trace is not None:
            self._trace.stepped(optimizer)
        known = len(self._cycle.names)
        self._cycle.stepped(optimizer, in_backward)
        if len(self._cycle.names) > known:
            _log.info("A step ends where %s has stepped.", " and ".join(self._cycle.names))
            self._note.optimizers = list(self._cycle.names)
            self._write_note()

    def _stop(self) -> None:
        debugger = self._debugger
        if debugger is not None:
            self._guarded(debugger.stop)

    def _end_step(self, debugger: PrecisionDebugger) -> None:
        self._cycle.begin()
        debugger.step()
        if self._trace is not None:
            self._trace.step()
        self._is_noted = False
        self._note_what_came()
        is_last = self._step == self._settings.last_step or bool(self._note.watched)
        if self._settings.stop_after and is_last:
            self._end_training(debugger)
        self._step += 1

    def _note_what_came(self, is_over: bool = False) -> None:
        """Note how an estimate or a comparison stands; finish it where all ``is_over``."""
        debugger = self._debugger
        if debugger is None or not (self._settings.estimate or debugger.watched):
            return
        if is_over:
            debugger.close()
        before = len(self._note.watched)
        self._note.estimated = debugger.estimated
        watched = debugger.watched
        if watched is not None:
            self._note.compared, self._note.missing = watched.compared, watched.missing
            self._note.watched = plain(watched.found)
            self._note.other_bits = plain(watched.bits)
        if is_over or len(self._note.watched) > before:
            self._write_note()

    def _end_training(self, debugger: PrecisionDebugger) -> None:
        """At once: what the training does when it is left, such as saving, is not wanted."""
        debugger.close()
        if self._trace is not None:
            self._trace.close()
        self._note.stopped = True
        self._write_note()
        status = 0
        if self._note.watched:
            status = EXIT_STOPPED  # others may differ nowhere: launchers then end them
        else:
            _wait_for_others()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

    def _guarded(self, run: Callable[[], None]) -> None:
        if self._failed:
            return
        try:
            run()
        except Exception as error:
            pass_on_if_of_signal(error)
            self._failed = True
            self._note.problem = str(error) if isinstance(error, CollectorError) else repr(error)
            self._write_note()
            _log.warning("Nothing is recorded any more: %s", self._note.problem)


def _wait_for_others() -> None:
    """Until all processes of the training have come here: one that left early is missed."""
    if not dist.is_initialized():
        return
    store: Any = dist.distributed_c10d._get_default_store()
    last = time.monotonic() + _PATIENCE
    with suppress(RuntimeError):  # the rank that keeps the store left, as all had come
        store.add("msprobe_run_ended", 1)
        while store.add("msprobe_run_ended", 0) < dist.get_world_size() and time.monotonic() < last:
            time.sleep(0.05)
