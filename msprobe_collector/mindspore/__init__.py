"""Dump the numbers of a training step in MindSpore: the same four lines as for torch.

    from msprobe_collector.mindspore import PrecisionDebugger

records what Python calls, so PyNative mode only.
"""

from __future__ import annotations

from msprobe_collector.errors import CollectorError
from msprobe_collector.mindspore.configuration import ConfigChecker
from msprobe_collector.mindspore.debugger import PrecisionDebugger
from msprobe_collector.mindspore.saving import save, save_grad, step
from msprobe_collector.mindspore.seed import seed_all
from msprobe_collector.mindspore.trainer import MsprobeInitStep, MsprobeStep, TrainerMon

__all__ = [
    "CollectorError",
    "ConfigChecker",
    "MsprobeInitStep",
    "MsprobeStep",
    "PrecisionDebugger",
    "TrainerMon",
    "save",
    "save_grad",
    "seed_all",
    "step",
]
