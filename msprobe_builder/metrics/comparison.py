"""Errors of paired tensors as named columns, whatever the task measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.facts.fact import Fact, Facts, fact
from msprobe_builder.metrics.pairing import Pairs

if TYPE_CHECKING:
    from msprobe_builder.metrics.replicas import Copy

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Metric:
    """One error of n pairs; where ``known`` is false there is no value at all."""

    value: Float
    known: NDArray[np.bool_]


@dataclass(frozen=True)
class Apart:
    """What is known of the difference of n pairs beside the metrics."""

    slices: NDArray[np.uint8]  # (n, 2 * SLICES): shares of it in rows, in columns; 255 is all
    said: dict[int, Facts]  # where it is, or what kind of difference it is, by position


@dataclass(frozen=True)
class RealData:
    """Errors from the tensors themselves; a note says of a pair without them why there are none."""

    metrics: dict[str, Metric]
    notes: dict[int, Fact]  # by position among the pairs
    diagnostics: list[Diagnostic]
    apart: tuple[dict[int, list[Copy]], dict[int, list[Copy]]]  # by side and row
    difference: Apart | None = None


@dataclass(frozen=True)
class Comparisons:
    """Everything measured on the pairs; ``error`` is what a pair contributes to its node."""

    pairs: Pairs
    metrics: dict[str, Metric]  # from the elements of the tensors
    of_statistics: Callable[[slice], dict[str, Metric]]  # of some of the pairs, made anew
    error: Float  # 0…1, NaN where the pair says nothing
    requires_grad_equal: NDArray[np.int8]  # -1 unknown, 0, 1
    md5_equal: NDArray[np.int8] | None = None  # -1 unknown, 0, 1
    notes: dict[int, Fact] = field(default_factory=dict)  # by position among the pairs
    apart: Apart | None = None  # where sketches or the tensors themselves tell it


_KINDS = {
    "missing": fact("pair.missing"),
    "unsaved": fact("pair.unsaved"),
    "denied": fact("pair.denied"),
    "refused": fact("pair.refused"),
    "unreadable": fact("pair.unreadable"),
    "shape": fact("pair.shape"),
    "unmerged": fact("pair.unmerged"),
}
_SIDES = fact("pair.npu"), fact("pair.bench")


def not_compared(kind: str, side: int | None, reason: Fact | str) -> Fact:
    """Why a pair was not compared; ``side`` is where the reason lies, None for both."""
    where = None if side is None else _SIDES[side]
    return fact("pair.not_compared", kind=_KINDS[kind], side=where, reason=reason)
