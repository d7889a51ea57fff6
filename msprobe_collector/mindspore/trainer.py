"""``TrainerMon`` and the callbacks of msprobe, for scripts that call them."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

from mindspore import nn
from mindspore.train import Callback

from msprobe_collector.errors import CollectorError
from msprobe_collector.mindspore.debugger import PrecisionDebugger
from msprobe_collector.mindspore.monitor import SEEN, Monitor
from msprobe_collector.monitor.trainer_config import read_trainer_config
from msprobe_collector.report import speak_up

_log = logging.getLogger("msprobe_collector")


class TrainerMon:
    """Follows one training; ``set_monitor`` begins."""

    def __init__(
        self,
        config_file_path: str | Path,
        process_group: object = None,  # noqa: ARG002 - of their collectives, none are needed here
        params_have_main_grad: bool = True,  # noqa: ARG002
    ) -> None:
        """Read a configuration file of theirs; CollectorError when a value is wrong."""
        speak_up()
        self._config, self._switch = read_trainer_config(Path(config_file_path))
        self._monitor: Monitor | None = None

    def set_monitor(
        self,
        model: nn.Cell | list[nn.Cell],
        optimizer: nn.Optimizer,
        grad_acc_steps: int = 1,  # noqa: ARG002 - a step is a call of the optimizer
        tp_group: object = None,  # noqa: ARG002
        dp_group: object = None,  # noqa: ARG002
        start_iteration: int = 0,
    ) -> None:
        """Begin to follow an optimizer and its model; steps are numbered from the last one."""
        if isinstance(model, list):
            if len(model) != 1:
                raise CollectorError("set_monitor() takes one mindspore.nn.Cell.")
            [model] = model
        if self._monitor is None:
            settings = self._config.monitor
            assert settings is not None
            record = {kind: names for kind, names in settings.record.items() if kind in SEEN}
            left_out = sorted(settings.record.keys() - record.keys())
            if left_out:
                _log.info("%s: MindSpore does not show it here.", ", ".join(left_out))
            config = replace(self._config, monitor=replace(settings, record=record))
            self._monitor = Monitor(config, self._switch)
        self._monitor.first_step = start_iteration
        self._monitor.monitor(optimizer, model)

    def stop(self) -> None:
        """Finish the files and leave nothing installed."""
        if self._monitor is not None:
            self._monitor.stop()


class MsprobeStep(Callback):  # type: ignore[misc]
    """``model.train(…, callbacks=[MsprobeStep(debugger)])`` records each step."""

    def __init__(self, debugger: PrecisionDebugger) -> None:
        """``debugger`` says what is recorded."""
        super().__init__()
        self._debugger = debugger

    def on_train_step_begin(self, run_context: Any) -> None:
        """Record the network that is trained."""
        network = run_context.original_args().network
        self._debugger.start(network)

    def on_train_step_end(self, _run_context: Any) -> None:
        """The step is over."""
        self._debugger.stop()
        self._debugger.step()


class MsprobeInitStep(Callback):  # type: ignore[misc]
    """Number steps from the one at which a training goes on."""

    def on_train_begin(self, run_context: Any) -> None:
        """Take over the number that the training begins with."""
        PrecisionDebugger.set_init_step(run_context.original_args().cur_step_num)
