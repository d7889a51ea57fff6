"""One operator at a time: run a call again, elsewhere or differently, and judge the difference.

Live in training: ``CompareWithCPU``, ``NanInfTracker``, ``PerturbOperators``. A saved call:
``compare_for_single_op``, ``nan_inf_track_for_single_op``. A dump: ``msprobe-operators``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from msprobe_operators.call.place import (
        ModuleInfo,
        close_module_tracker,
        open_module_tracker,
    )
    from msprobe_operators.live.compare_with_cpu import CompareWithCPU
    from msprobe_operators.live.nan_inf import NanInfTracker
    from msprobe_operators.live.perturbed import PerturbOperators
    from msprobe_operators.live.replay import compare_for_single_op, nan_inf_track_for_single_op
    from msprobe_operators.live.session import OperatorFailedError

_PLACES = {
    "CompareWithCPU": "live.compare_with_cpu",
    "ModuleInfo": "call.place",
    "NanInfTracker": "live.nan_inf",
    "OperatorFailedError": "live.session",
    "PerturbOperators": "live.perturbed",
    "close_module_tracker": "call.place",
    "compare_for_single_op": "live.replay",
    "nan_inf_track_for_single_op": "live.replay",
    "open_module_tracker": "call.place",
}

__all__ = [
    "CompareWithCPU",
    "ModuleInfo",
    "NanInfTracker",
    "OperatorFailedError",
    "PerturbOperators",
    "close_module_tracker",
    "compare_for_single_op",
    "nan_inf_track_for_single_op",
    "open_module_tracker",
]


def __getattr__(name: str) -> object:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{place}"), name)
    globals()[name] = value
    return value
