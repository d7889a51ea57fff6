"""For scripts written for the established recorder: only their import changes.

    from msprobe_collector.compat import PrecisionDebugger, seed_all

takes the same configuration file, its sections for tools that live elsewhere included.
``msprobe-run --as-msprobe`` lends these names to ``import msprobe.pytorch``.
"""

from __future__ import annotations

from torch import nn

from msprobe_builder import compare, compare_distributed
from msprobe_checks.gradients.comparator import GradComparator
from msprobe_collector.configuration.checker import ConfigChecker
from msprobe_collector.debugger import PrecisionDebugger
from msprobe_collector.drawing.reproducibility import random_save
from msprobe_collector.monitor.trainer import TrainerMon
from msprobe_collector.seed import seed_all, set_reproducibility
from msprobe_collector.single_save import SingleSave

__all__ = [
    "ConfigChecker",
    "GradComparator",
    "PrecisionDebugger",
    "SingleSave",
    "TrainerMon",
    "compare",
    "compare_distributed",
    "module_dump",
    "module_dump_end",
    "random_save",
    "seed_all",
    "set_reproducibility",
]


def module_dump(module: nn.Module, dump_name: str) -> None:
    """Record the calls of one module as ``Module.{dump_name}`` until :func:`module_dump_end`."""
    PrecisionDebugger.module_dump(module, dump_name)


def module_dump_end() -> None:
    """End what :func:`module_dump` began."""
    PrecisionDebugger.module_dump_end()
