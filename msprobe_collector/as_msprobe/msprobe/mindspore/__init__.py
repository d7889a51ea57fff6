"""The names of ``msprobe.mindspore``."""

from msprobe_builder import compare, compare_distributed
from msprobe_collector.mindspore import (
    ConfigChecker,
    MsprobeInitStep,
    MsprobeStep,
    PrecisionDebugger,
    TrainerMon,
    save,
    save_grad,
    seed_all,
    step,
)
from msprobe_collector.single_save import SingleSave

__all__ = [
    "ConfigChecker",
    "MsprobeInitStep",
    "MsprobeStep",
    "PrecisionDebugger",
    "SingleSave",
    "TrainerMon",
    "compare",
    "compare_distributed",
    "save",
    "save_grad",
    "seed_all",
    "step",
]
