"""The names of ``msprobe.mindspore``."""

from msprobe_builder import compare, compare_distributed
from msprobe_collector.mindspore import PrecisionDebugger, save, save_grad, step
from msprobe_collector.seed import seed_all
from msprobe_collector.single_save import SingleSave

__all__ = [
    "PrecisionDebugger",
    "SingleSave",
    "compare",
    "compare_distributed",
    "save",
    "save_grad",
    "seed_all",
    "step",
]
