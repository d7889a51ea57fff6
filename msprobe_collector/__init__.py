"""Dump the numbers of any PyTorch training step, for msprobe_builder to compare."""

from msprobe_collector.debugger import PrecisionDebugger
from msprobe_collector.errors import CollectorError
from msprobe_collector.seed import seed_all

__all__ = ["CollectorError", "PrecisionDebugger", "seed_all"]
