"""Reading gradients whenever an optimizer is about to use them, and writing them step by step."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from msprobe_builder.base.publish import replaced
from msprobe_checks.gradients.file_names import plain_name
from msprobe_collector.config.settings import Config
from msprobe_collector.errors import CollectorError
from msprobe_collector.gradients.measure import own_part, row, signs, sketch
from msprobe_collector.gradients.table import write_table
from msprobe_collector.optimizers.calls import Calls
from msprobe_collector.optimizers.parts import gradients
from msprobe_collector.process import process_rank
from msprobe_collector.signals import pass_on_if_of_signal

_log = logging.getLogger("msprobe_collector")


class GradientProbe:
    """Follows the parameters of models from ``monitor`` to ``stop``.

    A step is a call of the optimizer. Several optimizers have a count each: step n of the record
    is the n-th call of the optimizer that owns a parameter. The training goes on whatever
    becomes of the record.
    """

    def __init__(self, config: Config) -> None:
        assert config.gradients is not None
        self._settings = config.gradients
        self._config = config
        self._parameters: dict[nn.Parameter, str] = {}
        self._names: dict[str, None] = {}  # of those to record, in the order of the model
        self._calls = Calls()
        self._rows: dict[str, list[Any]] = {}
        self._open_step = -1
        self._handle: Any = None
        self._failed = False
        self.first_step = 0

    def monitor(self, model: nn.Module | Sequence[nn.Module]) -> None:
        """Follow all parameters that need gradients; CollectorError for anything but models."""
        models = [model] if isinstance(model, nn.Module) else list(model)
        if not models or not all(isinstance(one, nn.Module) for one in models):
            raise CollectorError("monitor() takes a torch.nn.Module or a list of them.")
        for place, one in enumerate(models):
            prefix = "" if len(models) == 1 else f"{place}."
            for name, parameter in one.named_parameters():
                if not parameter.requires_grad:
                    continue
                full = self._parameters.setdefault(parameter, prefix + name)
                if not self._settings.names or {name, full} & set(self._settings.names):
                    self._names[full] = None
        for name in sorted(set(self._settings.names) - set(self._parameters.values())):
            _log.warning("param_list names %s, which the model does not train.", name)
        if self._handle is None:
            self._handle = register_optimizer_step_pre_hook(self._before_step)

    def stop(self) -> None:
        """Write what is open and follow nothing any more."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None
        self._parameters.clear()
        self._names.clear()
        self._rows.clear()

    def _before_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if self._failed:
            return
        try:
            self._record(optimizer)
        except Exception as error:  # the training goes on
            pass_on_if_of_signal(error)
            self._failed = True
            _log.warning("Gradients are not recorded any more: %s", error)
            self.stop()

    def _record(self, optimizer: torch.optim.Optimizer) -> None:
        call = self._calls.begin(optimizer, self._parameters) if self._parameters else None
        if call is None:
            return
        step = self.first_step + call.step
        rank = process_rank() or 0
        selected = not self._config.step or step in self._config.step
        if not selected or (self._config.rank and rank not in self._config.rank):
            return
        if step != self._open_step:
            self._open_step = step
            self._rows = {}
        directory = self._config.dump_path / f"rank{rank}"
        for name, gradient in gradients(call.parts, self._parameters):
            self._record_one(name, gradient, directory / f"step{step}")
        # In the order of the model.
        known = [self._rows[name] for name in self._names if name in self._rows]
        write_table(directory / f"grad_summary_{step}.csv", self._settings, known)

    @torch.no_grad()
    def _record_one(self, name: str, gradient: torch.Tensor, directory: Path) -> None:
        gradient = own_part(gradient)
        if gradient.is_meta or name not in self._names:
            return
        self._rows[name] = row(name, gradient, self._settings)
        plain = plain_name(name)
        if self._settings.with_signs:
            directory.mkdir(mode=0o750, parents=True, exist_ok=True)
            suffix = "" if self._settings.sign_format == "bool" else ".bits"
            with replaced(directory / f"{plain}{suffix}.npy") as stream:
                np.save(stream, signs(gradient, self._settings.sign_format))
        if self._settings.sketch:
            directory.mkdir(mode=0o750, parents=True, exist_ok=True)
            with replaced(directory / f"{plain}.sketch.npy") as stream:
                np.save(stream, sketch(gradient, self._settings.sketch))
