"""How much a tensor differs from itself at the step before, told by the sketches of both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameter_columns import STATISTICS
from msprobe_builder.dump.read import Dump
from msprobe_builder.graph.floating import is_complex
from msprobe_builder.graph.recorded_places import Places, shown
from msprobe_builder.metrics.sketches import is_of_another, shape_layouts, whole_norms
from msprobe_builder.sketch.estimates import estimates
from msprobe_builder.sketch.file import Sketches

Int = NDArray[np.int64]
Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

_BLOCK = 1 << 12  # tensors at a time
_NORM = STATISTICS.index("Norm")


@dataclass(frozen=True)
class Sketched:
    """Tensors of a rank and step, one element each; the sketches themselves stay on disk."""

    sketches: Sketches
    target: Int
    row: Int  # of the sketches, -1 for none
    shape: Int
    dtype: Int
    norm: Float

    def __len__(self) -> int:
        return len(self.target)


def sketched(dump: Dump, rows: Int, target: Int) -> Sketched | None:
    """The targets in the given rows of the parameters of a dump; None where it has no sketches."""
    if dump.sketches is None:
        return None
    parameters = dump.parameters
    tensors = np.flatnonzero(parameters.is_tensor)
    places = shown(dump.sketches.places, by_argument=dump.by_argument)
    named = Places(tensors, parameters.record[tensors], parameters.section[tensors])
    found = named.of(places["record"], places["section"], places["position"])
    row = np.full(len(parameters), -1, dtype=np.int64)
    row[found[found >= 0]] = places["row"][found >= 0]
    return Sketched(
        dump.sketches._replace(places=dump.sketches.places[:0].copy()),
        target,
        row[rows],
        parameters.shape_id[rows],
        parameters.dtype_id[rows],
        parameters.statistic_columns(rows)[_NORM],
    )


def changes(now: Sketched, before: Sketched, texts: Texts) -> tuple[Float, Bool]:
    """The norm of the difference beside that of the step before, of each tensor, and where known.

    NaN where a step holds NaN, or one of them more infinities; infinite where it was zero. Unknown
    where a step lacks the tensor or has it in another shape or type.
    """
    value, known = np.full(len(now), np.nan), np.zeros(len(now), dtype=bool)
    earlier = _places(before.target, now.target)
    layout, _, layouts = shape_layouts(now.shape, is_complex(now.dtype, texts), texts)
    can = (earlier >= 0) & (now.row >= 0) & (layout >= 0)
    can[can] = (
        (before.row[earlier[can]] >= 0)
        & (before.shape[earlier[can]] == now.shape[can])
        & (before.dtype[earlier[can]] == now.dtype[can])
    )
    told = np.flatnonzero(can)
    for first in range(0, len(told), _BLOCK):
        at = told[first : first + _BLOCK]
        there = earlier[at]
        ours = now.sketches.rows(now.row[at])
        reference = before.sketches.rows(before.row[there])
        norm = whole_norms(now.norm[at], ours)
        other = whole_norms(before.norm[there], reference)
        relative = estimates(ours, reference, norm, other, layouts.of(layout[at])).relative
        is_odd = (ours["nans"] > 0) | (reference["nans"] > 0)
        is_odd |= ours["infinities"] != reference["infinities"]
        foreign = is_of_another(ours, norm) | is_of_another(reference, other)
        value[at] = np.where(is_odd | foreign, np.nan, relative)
        known[at] = ~foreign & (is_odd | ~np.isnan(relative))
    return value, known


def _places(targets: Int, wanted: Int) -> Int:
    """The last place of each wanted target, -1 where there is none."""
    last = np.full(int(max(targets.max(initial=-1), wanted.max(initial=-1))) + 1, -1)
    last[targets] = np.arange(len(targets))
    return np.asarray(last[wanted], dtype=np.int64)
