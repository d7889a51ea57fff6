"""``PrecisionDebugger``: the four lines in a training script."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import torch.distributed as dist
from torch import nn

from msprobe_collector.compiled.inside import look_inside
from msprobe_collector.config.narrowing import of_request
from msprobe_collector.config.settings import WHOLE_TRAINING, Config, load_config
from msprobe_collector.errors import CollectorError
from msprobe_collector.followers import followers_of
from msprobe_collector.intercept.apis import record_call
from msprobe_collector.intercept.custom_apis import CustomApis
from msprobe_collector.intercept.dataloader import FollowedDataLoader
from msprobe_collector.intercept.interception import Interception
from msprobe_collector.intercept.staged import is_staged
from msprobe_collector.intercept.token_range import checked_range
from msprobe_collector.process import process_rank
from msprobe_collector.record.pytorch import PyTorch
from msprobe_collector.record.saved import SavedValues
from msprobe_collector.record.session import Session
from msprobe_collector.report import speak_up
from msprobe_collector.steps import Debugger
from msprobe_collector.watch.replicas import ReplicaWatch
from msprobe_collector.watch.watch import Watch

_log = logging.getLogger("msprobe_collector")


class PrecisionDebugger(Debugger):
    """Records training steps; one per process, reachable through the class as well.

    ``start`` to ``stop`` is recorded, ``step`` closes a step. Nothing stays installed after
    ``stop``.
    """

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
        if Debugger._current is self:
            return
        speak_up()
        load = partial(load_config, config_path, task, dump_path, level, step)
        config = load()
        if config.inside_compiled:
            look_inside()
        self._models: list[nn.Module] = []
        self.watched = self._watch(config)
        session = Session(config, PyTorch(self.watched), estimate)
        if self.watched is not None:
            session.ledger.watch(self.watched)
        self._interception = Interception(session)
        self._set_up(config, session, self._interception, estimate, load)
        self._model = model
        self._saved = (
            SavedValues(config, session.framework) if self.config.level == "debug" else None
        )
        self._followers = followers_of(config)
        self._custom_apis = CustomApis(self._session, self._record, is_staged)
        self._followed: FollowedDataLoader | None = None
        if self.config.follows_dataloader:
            self._followed = FollowedDataLoader(
                lambda: self._begin_recording(self._model), self._next_batch
            )
            self._followed.install()
        Debugger._current = self

    # -- the interface ------------------------------------------------------------------------

    @classmethod
    def start(
        cls,
        model: nn.Module | Sequence[nn.Module] | None = None,
        token_range: Sequence[int] | None = None,
        rank_id: int | None = None,
        scheduled_tokens: object = None,
    ) -> PrecisionDebugger:
        """Record from here on; levels L0 and mix need the model or a list of models.

        With ``token_range`` only the calls of the model from the first number to the last are
        recorded, counted from 0. A second ``start`` with another model records both. ``rank_id``
        is this process where torch does not know it. ``scheduled_tokens`` counts the tokens of each
        request that an engine computes together: with ``request_id`` in the configuration the rows
        of this one are recorded, and nothing where it has none.
        """
        self = cls._the_one()
        self._is_rank(rank_id)
        if self._narrows(scheduled_tokens):
            self._begin_recording(model if model is not None else self._model, token_range)
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

    def _watch(self, config: Config) -> Watch | ReplicaWatch | None:
        head = (config.watch_calls, config.level, PyTorch.name)
        if config.watch_ranks:
            return ReplicaWatch(lambda: self._models, config.rank, *head)
        return None if config.watch is None else Watch(config.watch, *head)

    def _narrows(self, scheduled_tokens: object) -> bool:
        """Take the rows of the request that is asked for; False where there are none."""
        slices, request = self.config.slices, self.config.request
        if request is not None and scheduled_tokens is not None:
            rows = of_request(request, scheduled_tokens)
            if rows is None:
                self._warn(f"Request {request} has no tokens in some steps, which are left out.")
                return False
            slices = (*slices, rows)
        self._session.items.slices = slices
        return True

    # -- recording ----------------------------------------------------------------------------

    @property
    def records_now(self) -> bool:
        """Whether what is called now is recorded."""
        return self._recording

    def _begin_recording(
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

    def _record(
        self,
        label: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        frame: FrameType,
    ) -> Any:
        return record_call(self._session, label, function, args, kwargs, (args, kwargs), frame)

    def _stop_more(self) -> None:
        if self.config.task in WHOLE_TRAINING:
            self._stop_following()

    def _close_more(self) -> None:
        self._guarded(self._custom_apis.restore_all)
        self._stop_following()
        if self._followed is not None:
            self._followed.remove()

    def _stop_following(self) -> None:
        for follower in self._followers:
            self._guarded(follower.stop)

    def _number_steps_from(self, step: int) -> None:
        super()._number_steps_from(step)
        for follower in self._followers:
            follower.first_step = step

    def _rank(self) -> int | None:
        return process_rank() if self._rank_id is None else self._rank_id

    def _ranks(self) -> tuple[int, int] | None:
        rank = process_rank()
        return None if rank is None else (rank, dist.get_world_size())

    def _checked_models(
        self, model: nn.Module | Sequence[nn.Module] | None
    ) -> list[tuple[str, nn.Module]]:
        """Each model with the beginning of its modules' names."""
        if isinstance(model, nn.Module):
            return [("Module", model)]
        given: Any = () if model is None else model
        models = list(given) if isinstance(given, Iterable) else [given]
        if not all(isinstance(part, nn.Module) for part in models):
            raise CollectorError("start() takes a torch.nn.Module or a list of them.")
        if not models and self.config.with_modules:
            raise CollectorError(
                f"Level {self.config.level} records modules: call start(model) with the model."
            )
        return [(f"Module.{number}", part) for number, part in enumerate(models)]
