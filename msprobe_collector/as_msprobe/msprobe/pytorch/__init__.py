"""The names of ``msprobe.pytorch``."""

from msprobe_collector.compat import (
    ConfigChecker,
    PrecisionDebugger,
    SingleSave,
    TrainerMon,
    compare,
    compare_distributed,
    module_dump,
    module_dump_end,
    random_save,
    seed_all,
    set_reproducibility,
)

__all__ = [
    "ConfigChecker",
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
