"""Checks beside the comparison of dumps: checkpoints, gradients, configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from msprobe_checks.gradients.comparator import GradComparator

__all__ = ["GradComparator"]


def __getattr__(name: str) -> object:
    if name != "GradComparator":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from msprobe_checks.gradients.comparator import GradComparator

    return GradComparator
