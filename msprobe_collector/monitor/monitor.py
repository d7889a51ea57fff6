"""``Monitor``: follows models from ``monitor`` to ``stop`` and writes each step when it is over."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import logging
import os
import weakref
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
import torch.distributed as dist
from torch import nn
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from msprobe_builder.sketch.definition import FLAT
from msprobe_collector.config.monitor import KINDS
from msprobe_collector.config.settings import Config
from msprobe_collector.config.switch import Switch
from msprobe_collector.coordinates import place_of
from msprobe_collector.monitor.alerts import Rules
from msprobe_collector.monitor.communication import Communication
from msprobe_collector.monitor.hooks import Hooks
from msprobe_collector.monitor.measure import Waiting, fetch, is_unchanged, measure
from msprobe_collector.monitor.names import named_modules, named_parameters
from msprobe_collector.monitor.numbers import Numbers, single
from msprobe_collector.monitor.optimizers import learning_rates, states
from msprobe_collector.monitor.row import joined
from msprobe_collector.monitor.write import Writer, write_place
from msprobe_collector.optimizers.calls import Call, Calls
from msprobe_collector.optimizers.parts import gradients, weight_of
from msprobe_collector.record.sketches import Sketches
from msprobe_collector.signals import pass_on_if_of_signal
from msprobe_collector.unseen import unseen

_log = logging.getLogger("msprobe_collector")

_Parts: TypeAlias = "list[Numbers | Waiting | None]"  # None: of what is still on its way
_NOTHING = single(0.0)  # came after all for a place that was kept
_ORDER = {kind: place for place, kind in enumerate(KINDS)}


class Monitor:
    """A step is a call of the optimizer, as in the record of gradients.

    What was seen since the call before belongs to it. The training goes on whatever becomes of
    the record.
    """

    def __init__(self, config: Config, switch: Switch | None = None) -> None:
        """``switch`` says at each step whether it is recorded."""
        assert config.monitor is not None
        self._switch = switch
        self._asked = (-1, True)  # a step, and whether the switch was on
        self._settings, self._config = config.monitor, config
        self._models: list[nn.Module] = []  # with what wraps them
        self._modules: dict[nn.Module, str] = {}
        self._parameters: dict[nn.Parameter, str] = {}
        self._hooks = Hooks(self._take, self._fail, self._is_open)
        self._communication = Communication(self, self._fail, self._is_open)
        self._handles: list[Any] = []
        self._calls = Calls()
        self._begun: dict[torch.optim.Optimizer, Call] = {}
        self._open: dict[tuple[str, str], _Parts] = {}
        self._written: tuple[int, set[tuple[str, str]]] = (-1, set())  # of a step
        self._last: tuple[weakref.ref[torch.Tensor], int, Numbers | Waiting] | None = None
        self._rules = Rules(config.monitor.alerts)
        self._alerts: Counter[str] = Counter()
        self._writer: Writer | None = None
        self._lines: dict[str, tuple[tuple[int, ...], str]] = {}  # that place.json tells
        self._sketches = Sketches(is_flat=True) if config.monitor.sketches else None
        self._pid = os.getpid()
        self.first_step = 0

    def monitor(self, model: nn.Module | Sequence[nn.Module]) -> None:
        """Follow models; CollectorError for anything else. A second call replaces the first."""
        modules = named_modules(model)
        self._models = [model] if isinstance(model, nn.Module) else list(model)
        self._hooks.remove()
        self._modules, self._parameters = modules, named_parameters(modules)
        wants = self._settings.wants
        for module, name in self._modules.items():
            if wants("input", name):
                self._hooks.follow_inputs(module, name)
            if wants("activation", name):
                self._hooks.follow_outputs(module, name)
            if wants("activation_gradient", name):
                self._hooks.follow_output_gradients(module, name)
            own = {
                key: f"{name}.{key}" if name else key
                for key, parameter in module.named_parameters(recurse=False)
                if parameter.requires_grad
            }
            own = {key: full for key, full in own.items() if wants("local_gradient", full)}
            if own:
                self._hooks.follow_gradients(module, own)
        if "communication" in self._settings.record:
            self._communication.install()
        if not self._handles:
            self._handles = [
                register_optimizer_step_pre_hook(self._before_step),
                register_optimizer_step_post_hook(self._after_step),
            ]

    def stop(self) -> None:
        """Finish the files and follow nothing any more."""
        self._hooks.remove()
        self._communication.remove()
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._models, self._modules, self._parameters = [], {}, {}
        self._begun.clear()
        self._open.clear()
        self._last = None
        if self._writer is not None and self._pid == os.getpid():
            writer, self._writer = self._writer, None
            writer.close()
        for rule, count in self._alerts.items():
            if count > 1:
                _log.warning("Monitor: rule %s was broken %d times.", rule, count)
        self._alerts.clear()

    # -- what is seen -------------------------------------------------------------------------

    def _take(self, kind: str, name: str, tensor: torch.Tensor, has_grown: bool) -> None:
        """Measure a tensor for the step that is open, beside what was seen under this name.

        One that has grown replaces it. Call inside ``unseen``.
        """
        found = self._measured(tensor)
        if found is None:
            return
        earlier = self._open.setdefault((kind, name), [])
        if has_grown:
            earlier.clear()
        earlier.append(found)

    def reserve(self, name: str, pair: str) -> tuple[_Parts, int] | None:
        """See :class:`~msprobe_collector.monitor.communication.Taking`."""
        if not (self._settings.sketches and self._settings.wants("communication", name)):
            return None
        parts = self._open.setdefault(("communication", pair), [])
        parts.append(None)
        return parts, len(parts) - 1

    def release(self, place: tuple[_Parts, int]) -> None:
        """See :class:`~msprobe_collector.monitor.communication.Taking`."""
        parts, at = place
        parts[at] = _NOTHING

    def take(self, name: str, tensor: torch.Tensor, place: tuple[_Parts, int] | None) -> None:
        """See :class:`~msprobe_collector.monitor.communication.Taking`."""
        if not self._settings.wants("communication", name):
            return
        self._last = None  # what is received raises no version
        found = self._measured(tensor)
        self._last = None
        if found is None:
            return
        self._open.setdefault(("communication", name), []).append(found)
        if place:
            parts, at = place
            parts[at] = found

    def _measured(self, tensor: torch.Tensor) -> Numbers | Waiting | None:
        """A module often hands on what the last one in it has put out."""
        if self._last is not None:
            seen, version, numbers = self._last
            if seen() is tensor and version == tensor._version:
                return numbers
        found = measure(tensor, self._sketches)
        self._last = None if found is None else (weakref.ref(tensor), tensor._version, found)
        return found

    def _is_open(self) -> bool:
        return self._selects(self.first_step + self._calls.next_step)

    def _selects(self, step: int) -> bool:
        if self._pid != os.getpid() or not self._settings.selects(step):
            return False
        if self._switch is not None and step != self._asked[0]:
            self._asked = step, self._switch.is_on()
        if not self._asked[1]:
            return False
        chosen = not self._config.step or step in self._config.step
        return chosen and (not self._config.rank or _rank() in self._config.rank)

    # -- the optimizer ------------------------------------------------------------------------

    def _before_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if not self._parameters or self._pid != os.getpid():
            return
        try:
            with torch.no_grad(), unseen():
                call = self._calls.begin(optimizer, self._parameters)
                if call is None:
                    return
                self._begun[optimizer] = call
                if self._selects(step := self.first_step + call.step):
                    self._open_step(step)
                    self._measure_before(call)
        except Exception as error:
            self._fail(error)

    def _measure_before(self, call: Call) -> None:
        own = {part.parameter for part in call.parts}
        # Of parameters that are cut each rank has the whole, or a part beside the copies.
        is_own = all(part.parameter is part.changed for part in call.parts)
        for parameter, name in self._parameters.items():
            if not is_own or parameter in own:
                self._add("weight", name, weight_of(parameter))
        for name, gradient in gradients(call.parts, self._parameters):
            parts = self._open.get(("local_gradient", name), [])
            before = parts[0] if len(parts) == 1 else None
            if self._settings.wants("gradient", name) and is_unchanged(gradient, before):
                assert before is not None
                self._open[("gradient", name)] = [before]
            else:
                self._add("gradient", name, gradient)

    def _after_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        call = self._begun.pop(optimizer, None)
        if call is None:
            return
        step = self.first_step + call.step
        try:
            if self._selects(step):
                with torch.no_grad(), unseen():
                    for name, rate in learning_rates(optimizer, call.groups):
                        if self._settings.wants("learning_rate", name):
                            self._open.setdefault(("learning_rate", name), [single(rate)])
                    for name, state in states(optimizer, call.parts):
                        self._add("optimizer_state", name, state)
                    for parameter, name in self._parameters.items():
                        self._add("updated_weight", name, weight_of(parameter))
                self._write(step)
        except Exception as error:
            self._fail(error)
        self._open.clear()
        self._last = None
        if self._sketches is not None:
            self._sketches.end_step()

    def _open_step(self, step: int) -> None:
        """Several calls of optimizers may belong to one step."""
        if self._written[0] != step:
            self._written = (step, set())

    def _add(self, kind: str, name: str, tensor: torch.Tensor) -> None:
        key = (kind, name)
        if key not in self._written[1] and self._settings.wants(kind, name):
            found = measure(tensor, self._sketches)
            if found is not None:
                self._open[key] = [found]

    # -- the record ---------------------------------------------------------------------------

    def _write(self, step: int) -> None:
        for key in self._written[1] & self._open.keys():
            del self._open[key]
        self._written[1].update(self._open)
        seen = {key: whole for key, parts in self._open.items() if (whole := _all_of(parts))}
        numbers = iter(fetch([one for parts in seen.values() for one in parts]))
        rows, of_micro_batches = [], []
        sums = None if self._sketches is None else self._sketches.take()["numbers"][:, :FLAT]
        for (kind, name), parts in seen.items():
            each = [next(numbers) for _ in parts]
            rows.append(joined(kind, name, each, sums))
            if self._settings.micro_batches and len(each) > 1:
                of_micro_batches += [
                    joined(kind, f"{name}@{at}", [one], sums) for at, one in enumerate(each)
                ]
        alerts = [alert for row in rows if (alert := self._rules.judge(step, row)) is not None]
        rows += of_micro_batches
        rows.sort(key=lambda row: _ORDER[row.kind])
        for alert in alerts:
            self._alerts[alert.rule] += 1
            if self._alerts[alert.rule] == 1:
                _log.warning("Monitor: at step %d %s", step, alert.sentence)
        directory = self._config.dump_path / "monitor" / f"rank{_rank()}"
        is_new = self._writer is None
        if self._writer is None:
            self._writer = Writer(
                directory, self._settings.formats, step, with_sketches=self._settings.sketches
            )
        if is_new or self._lines != self._communication.lines:
            self._lines = dict(self._communication.lines)
            write_place(directory, place_of(self._models), self._lines)
        self._writer.step(step, rows, alerts)

    def _fail(self, error: Exception) -> None:
        pass_on_if_of_signal(error)
        _log.warning("The training is not monitored any more: %s", error)
        try:
            self.stop()
        except Exception as another:
            _log.warning("The monitor's files could not be finished: %s", another)


def _all_of(parts: _Parts) -> list[Numbers | Waiting]:
    """What came; none of it while any is on its way."""
    came = [one for one in parts if one is not None]
    return [one for one in came if one is not _NOTHING] if len(came) == len(parts) else []


def _rank() -> int:
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0
