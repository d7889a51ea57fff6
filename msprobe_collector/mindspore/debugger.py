"""``PrecisionDebugger`` for MindSpore."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import mindspore
from mindspore import nn
from mindspore.communication import GlobalComm, get_rank

from msprobe_collector.config.settings import WHOLE_TRAINING, load_config
from msprobe_collector.config.switch import switch_of
from msprobe_collector.errors import CollectorError
from msprobe_collector.intercept.custom_apis import CustomApis
from msprobe_collector.intercept.token_range import TokenRange, checked_range
from msprobe_collector.mindspore.calls import Calls, record_call
from msprobe_collector.mindspore.cells import Cells, CountedCalls
from msprobe_collector.mindspore.engine import MindSpore
from msprobe_collector.mindspore.gradients import GradientProbe
from msprobe_collector.mindspore.monitor import Monitor
from msprobe_collector.record.saved import SavedValues
from msprobe_collector.record.session import Session
from msprobe_collector.report import speak_up
from msprobe_collector.steps import Debugger


class PrecisionDebugger(Debugger):
    """Records training steps of MindSpore in PyNative mode; one per process.

    ``start`` to ``stop`` is recorded, ``step`` closes a step. Nothing stays installed after
    ``stop``.
    """

    def __init__(
        self,
        config_path: str | Path | None = None,
        task: str | None = None,
        dump_path: str | Path | None = None,
        level: str | None = None,
        step: Sequence[int | str] | None = None,
        estimate: bool = False,
    ) -> None:
        """Settle what to record; see docs/collect.md. ``estimate`` writes nothing and says how
        large each step would be and how long it would take.
        """
        if Debugger._current is self:
            return
        speak_up()
        load = partial(load_config, config_path, task, dump_path, level, step)
        config = load()
        if config.watch is not None or config.watch_ranks:
            raise CollectorError("watch follows PyTorch only; leave it out for MindSpore.")
        if config.inside_compiled:
            raise CollectorError("inside_compiled is for PyTorch only; leave it out for MindSpore.")
        if config.flow:
            raise CollectorError("flow follows PyTorch only; leave it out for MindSpore.")
        if config.follows_dataloader:
            raise CollectorError(
                "enable_dataloader follows PyTorch only; call start() and step() for MindSpore."
            )
        _check_version()
        framework = MindSpore()
        session = Session(config, framework, estimate)
        framework.threads = session.threads
        self._interception = Interception(session)
        self._set_up(config, session, self._interception, estimate, load)
        self._models: list[nn.Cell] = []
        self._custom_apis = CustomApis(session, partial(record_call, session))
        self._followers: list[GradientProbe | Monitor] = []
        if config.gradients is not None:
            self._followers.append(GradientProbe(config))
        if config.monitor is not None:
            self._followers.append(Monitor(config, switch_of(config)))
        if config.level == "debug":
            self._saved = SavedValues(config, framework)
        Debugger._current = self

    @classmethod
    def start(
        cls,
        model: nn.Cell | Sequence[nn.Cell] | None = None,
        token_range: Sequence[int] | None = None,
        rank_id: int | None = None,
    ) -> PrecisionDebugger:
        """Record from here on; levels L0 and mix need the model or a list of models.

        With ``token_range`` only the calls of the model from the first number to the last are
        recorded, counted from 0. A second ``start`` with another model records both. ``rank_id``
        is this process where MindSpore does not know it.
        """
        self = cls._the_one()
        self._is_rank(rank_id)
        self._begin_recording(model, token_range)
        return self

    @classmethod
    def register_custom_api(cls, module: Any, api: str, api_prefix: str | None = None) -> None:
        """Record calls of ``module.api`` as an API of the name ``api_prefix.api``."""
        cls._the_one()._custom_apis.register(module, api, api_prefix)

    @classmethod
    def restore_custom_api(cls, module: Any, api: str) -> None:
        """Undo :meth:`register_custom_api`."""
        cls._the_one()._custom_apis.restore(module, api)

    @classmethod
    def monitor(cls, optimizer: nn.Optimizer, model: nn.Cell | None = None) -> None:
        """Follow an optimizer from now on: task grad_probe, key monitor.

        With ``model`` the monitor also records what its Cells are given and put out.
        """
        self = cls._the_one()
        if not self._followers:
            raise CollectorError("monitor() records with task grad_probe or monitor; set one.")
        for follower in self._followers:
            if isinstance(follower, Monitor):
                follower.monitor(optimizer, model)
            else:
                follower.monitor(optimizer)

    def _stop_more(self) -> None:
        if self.config.task in WHOLE_TRAINING:
            self._stop_following()

    def _close_more(self) -> None:
        self._guarded(self._custom_apis.restore_all)
        self._stop_following()

    def _stop_following(self) -> None:
        for follower in self._followers:
            self._guarded(follower.stop)

    def _number_steps_from(self, step: int) -> None:
        super()._number_steps_from(step)
        for follower in self._followers:
            follower.first_step = step

    def _begin_recording(self, model: Any, token_range: Sequence[int] | None = None) -> None:
        if self.config.task in WHOLE_TRAINING:
            self._warn(f"Task {self.config.task} records with monitor(); start() has no effect.")
            return
        if self._saved is not None:
            self._warn("At level debug only save() records; start() and stop() have no effect.")
            return
        if mindspore.get_context("mode") == mindspore.GRAPH_MODE:
            raise CollectorError(
                "In graph mode Python calls nothing that could be recorded; "
                "call mindspore.set_context(mode=mindspore.PYNATIVE_MODE) first."
            )
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

    def _checked_models(self, model: Any) -> list[tuple[str, nn.Cell]]:
        """Each model with the beginning of its Cells' names."""
        if isinstance(model, nn.Cell):
            return [("Cell", model)]
        if model is None and self.config.with_modules:
            raise CollectorError(
                f"Level {self.config.level} records Cells: call start(model) with the model."
            )
        models = list(model) if isinstance(model, (list, tuple)) else [model] if model else []
        if not all(isinstance(part, nn.Cell) for part in models):
            raise CollectorError("start() takes a mindspore.nn.Cell or a list of them.")
        return [(f"Cell.{number}", part) for number, part in enumerate(models)]

    def _rank(self) -> int | None:
        if self._rank_id is not None:
            return self._rank_id
        return int(get_rank()) if GlobalComm.INITED else None


class Interception:
    """All that is put into MindSpore between start and stop, and taken out again."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._cells = Cells(session)
        self._calls = Calls(session)
        self._counted = CountedCalls(TokenRange(session.ledger))
        self._removals: list[Callable[[], None]] = []

    def install(
        self, models: Sequence[tuple[str, nn.Cell]], tokens: tuple[int, int] | None = None
    ) -> None:
        config = self._session.config
        if config.with_modules:
            self._removals.append(self._cells.remove)
            self._cells.install(models)
        if config.with_apis:
            self._removals.append(self._calls.remove)
            self._calls.install()
        if tokens is not None:  # last, because what is taken over last is called first
            self._removals.append(self._counted.remove)
            self._counted.install(models[0][1], tokens)
        self._session.threads.sees_calls = True

    def add(self, models: Sequence[tuple[str, nn.Cell]]) -> None:
        """More models in the same window."""
        if self._session.config.with_modules:
            self._cells.install(models)

    def remove(self) -> None:
        removals, self._removals = self._removals, []
        for removal in reversed(removals):
            try:
                removal()
            except Exception as error:
                self._session.report("The end of the recording", error)
        threads = self._session.threads
        threads.sees_calls = threads.hides_calls = False
        threads.modules.clear()

    def forget(self) -> None:
        """In a forked process nothing is active any more, so every call passes."""


def _check_version() -> None:
    if not hasattr(mindspore.Tensor, "_grad_node"):
        raise CollectorError(
            f"MindSpore {mindspore.__version__} does not show its graph of gradients; "
            "recording needs MindSpore 2.8 or newer."
        )
