"""Dump the numbers of any training step, for msprobe_builder to compare.

Folders in the order in which data flows: ``config`` what to record, ``intercept`` how calls are
seen, ``record`` what is kept of them, ``write`` the files. Torch is loaded with the first name
that needs it, so that what is independent of a framework can be used without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msprobe_collector.errors import CollectorError

if TYPE_CHECKING:
    from msprobe_collector.configuration.checker import ConfigChecker
    from msprobe_collector.debugger import PrecisionDebugger
    from msprobe_collector.run.follow import record_training
    from msprobe_collector.seed import seed_all
    from msprobe_collector.single_save import SingleSave

__all__ = [
    "CollectorError",
    "ConfigChecker",
    "PrecisionDebugger",
    "SingleSave",
    "record_training",
    "seed_all",
]


def __getattr__(name: str) -> Any:
    if name == "PrecisionDebugger":
        from msprobe_collector.debugger import PrecisionDebugger

        return PrecisionDebugger
    if name == "ConfigChecker":
        from msprobe_collector.configuration.checker import ConfigChecker

        return ConfigChecker
    if name == "record_training":
        from msprobe_collector.run.follow import record_training

        return record_training
    if name == "SingleSave":
        from msprobe_collector.single_save import SingleSave

        return SingleSave
    if name == "seed_all":
        from msprobe_collector.seed import seed_all

        return seed_all
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
