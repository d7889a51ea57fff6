"""What follows a whole training, from ``monitor(model)`` on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import nn

from msprobe_collector.config.settings import Config
from msprobe_collector.config.switch import switch_of
from msprobe_collector.gradients.probe import GradientProbe
from msprobe_collector.monitor.monitor import Monitor


class Follower(Protocol):
    """Sees every call of the optimizer."""

    first_step: int  # the number of the first call

    def monitor(self, model: nn.Module | Sequence[nn.Module]) -> None:
        """Begin; CollectorError for anything but models."""

    def stop(self) -> None:
        """Finish the files and leave nothing installed."""


def followers_of(config: Config) -> tuple[Follower, ...]:
    """Those that a configuration asks for."""
    found: list[Follower] = []
    if config.gradients is not None:
        found.append(GradientProbe(config))
    if config.monitor is not None:
        found.append(Monitor(config, switch_of(config)))
    return tuple(found)
