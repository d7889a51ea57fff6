"""Dump the numbers of a training step in MindSpore: the same four lines as for torch.

    from msprobe_collector.mindspore import PrecisionDebugger

records what Python calls, so PyNative mode only.
"""

from __future__ import annotations

from msprobe_collector.errors import CollectorError
from msprobe_collector.mindspore.configuration import ConfigChecker
from msprobe_collector.mindspore.debugger import PrecisionDebugger
from msprobe_collector.mindspore.saving import save, save_grad, step

__all__ = [
    "CollectorError",
    "ConfigChecker",
    "PrecisionDebugger",
    "save",
    "save_grad",
    "step",
]
