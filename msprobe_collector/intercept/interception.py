"""All that is put into torch between start and stop, and taken out again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from torch import nn

from msprobe_collector.intercept.apis import CallMode, put_on, remove_mode
from msprobe_collector.intercept.checkpoints import Checkpoints
from msprobe_collector.intercept.compiled import CompiledRegions
from msprobe_collector.intercept.custom_functions import CustomFunctions
from msprobe_collector.intercept.distributed import Communication
from msprobe_collector.intercept.functional_collectives import FunctionalCollectives
from msprobe_collector.intercept.fused_modules import FusedPaths
from msprobe_collector.intercept.modules import ModuleHooks
from msprobe_collector.intercept.operators import Operators
from msprobe_collector.intercept.phases import Phases
from msprobe_collector.intercept.pipelining import ShapePasses
from msprobe_collector.intercept.scripted import ScriptedModules
from msprobe_collector.intercept.swapped import SwappedTensors
from msprobe_collector.intercept.token_range import TokenRange
from msprobe_collector.record.session import Session
from msprobe_collector.unseen import unseen


class Interception:
    """Installs what the level asks for; each part is removed even if another fails."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._collectives = FunctionalCollectives(session)
        self._mode = CallMode(session, self._collectives)
        self._modules = ModuleHooks(session, lambda: self._mode)
        self._scripted = ScriptedModules(self._modules)
        self._communication = Communication(session)
        self._phases = Phases(session)
        self._checkpoints = Checkpoints(session)
        self._compiled = CompiledRegions(session, lambda: self._mode, self._modules.named.get)
        self._custom = CustomFunctions(session)
        self._operators = Operators()
        self._tokens = TokenRange(session.ledger)
        self._fused = FusedPaths(session, lambda: self._mode)
        self._swapped = SwappedTensors(session)
        self._shapes = ShapePasses(session)
        self._removals: list[Callable[[], None]] = []

    def install(
        self, models: Sequence[tuple[str, nn.Module]], tokens: tuple[int, int] | None = None
    ) -> None:
        config = self._session.config
        self._name(models)
        if tokens is not None:  # first, because its hook decides about the others
            roots = [model for _, model in models]
            self._put(lambda: self._tokens.install(roots, tokens), self._tokens.remove)
        if config.with_modules:
            self._put(lambda: self._modules.install(models), self._modules.remove)
            self._put(self._scripted.install, self._scripted.remove)
            self._put(self._checkpoints.install, self._checkpoints.remove)
        if config.with_apis:
            self._put(self._communication.install, self._communication.remove)
            self._put(self._collectives.install, self._collectives.remove)
            self._put(self._custom.install, self._custom.remove)
            self._put(self._operators.install, self._operators.remove)
        self._put(self._fused.install, self._fused.remove)
        self._put(self._swapped.install, self._swapped.remove)
        self._put(self._shapes.install, self._shapes.remove)
        self._put(self._phases.install, self._phases.remove)
        self._put(self._begin_mode, self._end_mode)
        self._put(self._compiled.install, self._compiled.remove)

    def add(self, models: Sequence[tuple[str, nn.Module]]) -> None:
        """More models in the same window."""
        self._name(models)
        if self._session.config.with_modules:
            self._modules.install(models)

    def install_one(self, name: str, module: nn.Module) -> None:
        """Nothing but the calls of one module."""
        self._put(self._scripted.install, self._scripted.remove)
        self._put(lambda: self._modules.hook(f"Module.{name}", module), self._modules.remove)

    def _name(self, models: Sequence[tuple[str, nn.Module]]) -> None:
        """Parameters and buffers are known by name to what follows the data."""
        flow = self._session.flow
        if flow is not None:
            with unseen():
                for prefix, model in models:
                    flow.name_those_of(prefix, model)

    def remove(self) -> None:
        if not self._removals:
            return
        removal = self._removals.pop()
        try:
            removal()
        except BaseException as error:
            with suppress(Exception):
                removal()  # once more: an interrupt may have come half-way
            if not isinstance(error, Exception):
                raise
            self._session.report("The end of the recording", error)
        finally:
            self.remove()  # the others

    def forget(self) -> None:
        """In a forked process: leave the thread's calls alone."""
        self._mode.counts = False
        remove_mode(self._mode)

    def _put(self, install: Callable[[], None], remove: Callable[[], None]) -> None:
        self._removals.append(remove)  # first, because half of it may be installed
        install()

    def _begin_mode(self) -> None:
        self._mode = CallMode(self._session, self._collectives)
        put_on(self._mode)
        self._session.threads.sees_calls = True

    def _end_mode(self) -> None:
        """Off this thread's stack; on another's it passes everything on until it is met."""
        self._mode.counts = False
        remove_mode(self._mode)
        threads = self._session.threads
        threads.sees_calls = False
        threads.modules.clear()
        threads.hides_calls = False
