"""``TrainerMon``: the monitor as scripts of msprobe call it, with their configuration file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from msprobe_collector.monitor.monitor import Monitor
from msprobe_collector.monitor.trainer_config import read_trainer_config
from msprobe_collector.report import speak_up


class TrainerMon:
    """Follows one training; ``set_monitor`` begins."""

    def __init__(
        self,
        config_file_path: str | Path,
        process_group: object = None,  # noqa: ARG002 - of their collectives, none are needed here
        params_have_main_grad: bool = True,  # noqa: ARG002 - it is found out
    ) -> None:
        """Read a configuration file of theirs; CollectorError when a value is wrong."""
        speak_up()
        self._config, self._switch = read_trainer_config(Path(config_file_path))
        self._monitor: Monitor | None = None

    def set_monitor(
        self,
        model: nn.Module | Sequence[nn.Module],
        optimizer: object = None,  # noqa: ARG002 - those of the process are seen
        grad_acc_steps: int = 1,  # noqa: ARG002 - a step is a call of the optimizer
        tp_group: object = None,  # noqa: ARG002
        dp_group: object = None,  # noqa: ARG002
        start_iteration: int = 0,
    ) -> None:
        """Begin to follow a model; steps are numbered from ``start_iteration``."""
        if self._monitor is None:
            self._monitor = Monitor(self._config, self._switch)
        self._monitor.first_step = start_iteration
        self._monitor.monitor(model)

    def monitor_gnorm_with_ad(self, model: Any, *rest: Any, **more: Any) -> None:
        """The older name of :meth:`set_monitor`, whose other arguments had another order."""
        started = more.get("start_iteration", rest[4] if len(rest) > 4 else 0)
        self.set_monitor(model, start_iteration=started)

    def stop(self) -> None:
        """Finish the files and leave nothing installed."""
        if self._monitor is not None:
            self._monitor.stop()
