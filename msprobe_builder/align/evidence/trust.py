"""What it means that statistics of two nodes agree, and whether they do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.tolerances import EQUAL, NEAR
from msprobe_builder.align.evidence.traits import Tensors, Traits

Int = NDArray[np.int64]
Float = NDArray[np.float64]
Bool = NDArray[np.bool_]


@dataclass(frozen=True)
class Trust:
    """Weights of statistics that are equal and of those that are near; whether sizes are equal.

    ``weights`` is that of equal or near parameters. Where sizes are equal shapes need not be: one
    side may hold the sequence first and the other one the batch.
    """

    equal: float = 0.0
    near: float = 0.0
    same_sizes: bool = True
    same_shapes: bool = True
    weights: float = 1.5

    def extent(self, tensors: Tensors) -> Int | Float:
        """What is equal of tensors of one extent: shapes, numbers of elements or of dimensions."""
        if self.same_shapes:
            return tensors.shapes
        return tensors.numel if self.same_sizes else tensors.ranks


# Where statistics agree less often than this between calls at the same place, they do so by
# chance: other seeds, other data. Then they are no evidence. Where most shapes differ the models
# are of other sizes, and only numbers of dimensions can agree.
_LEAST_AGREEMENT = 0.08
_LEAST_EQUAL_WEIGHTS = 0.5  # norms begin with ones in any run
_ROUNDED = 2.0**-8  # what bfloat16 rounds off; norms of large drawn weights are near by chance
_LEAST_NEAR = 0.4  # what norms put out is near anywhere
_LEAST_SAME_SIZES = 0.5


def trust_of(npu: Traits, bench: Traits, a: Int, b: Int) -> Trust:
    """What agreement of statistics means for two sides whose leaves ``a`` and ``b`` are aligned.

    Near statistics mean something only where not all that is right is equal anyway.
    """
    of_weights = (npu.parameters.count[a] > 0) & (bench.parameters.count[b] > 0)
    level = levels(npu.parameters, bench.parameters, a[of_weights], b[of_weights])
    differ = _other_weights(npu.parameters, bench.parameters, a[of_weights], b[of_weights])
    are_known = bool(len(level))
    tell = not are_known or bool((level > 0).mean() >= _LEAST_EQUAL_WEIGHTS)
    weights = 1.5 if tell and not differ else 0.0
    # Merged adapters have other weights and compute the same: the last result of all tells.
    last = np.flatnonzero(of_weights & (npu.outputs.numel[a] > 1))[-1:]
    others = differ and not (levels(npu.outputs, bench.outputs, a[last], b[last]) == 2).any()
    some = (npu.outputs.numel[a] > 1) & (bench.outputs.numel[b] > 1)
    a, b = a[some], b[some]
    if not len(a):
        return Trust(weights=weights)
    same_shapes, same_sizes = (
        (debug[a] == reference[b]).mean() >= _LEAST_SAME_SIZES
        for debug, reference in (
            (npu.outputs.shapes, bench.outputs.shapes),
            (npu.outputs.numel, bench.outputs.numel),
        )
    )
    level = levels(npu.outputs, bench.outputs, a, b)
    equal, near = (level == 2).mean(), (level >= 1).mean()
    agrees = bool(equal >= _LEAST_AGREEMENT and not others)
    return Trust(
        2.0 * agrees,
        1.0 * (near - equal >= _LEAST_AGREEMENT and near >= _LEAST_NEAR and not others),
        bool(same_sizes),
        bool(same_shapes),
        weights if are_known or agrees else 0.0,  # calls take in weights of which none is known
    )


def _other_weights(debug: Tensors, reference: Tensors, a: Int, b: Int) -> bool:
    """Whether most weights of pairs of equal size differ; then what agrees does not depend on any.

    Such are positions, masks and numbers of tokens, which every layer has alike.
    """
    known = ~np.isnan(debug.values[:, a] + reference.values[:, b]).any(axis=0)
    known &= debug.numel[a] == reference.numel[b]
    a, b = a[known], b[known]
    x, y = debug.values[:, a], reference.values[:, b]
    with np.errstate(invalid="ignore"):
        same = (np.abs(x - y) <= _ROUNDED * np.maximum(np.abs(x), np.abs(y))).all(axis=0)
    return bool(debug.numel[a][same].sum() < _LEAST_EQUAL_WEIGHTS * debug.numel[a].sum())


def disagreeing(debug: Tensors, reference: Tensors, a: Int, b: Int) -> Bool:
    """Which of the pairs ``a``, ``b`` differ in their statistics, where both have any."""
    known = ~(np.isnan(debug.values[0, a]) | np.isnan(reference.values[0, b]))
    known &= (debug.values[0, a] != 0) | (reference.values[0, b] != 0)
    return np.asarray(known & (levels(debug, reference, a, b) < 2))


def levels(debug: Tensors, reference: Tensors, a: Int, b: Int) -> Int:
    """2 where the statistics of two sections are equal, 1 where they are near, else 0."""
    x, y = debug.values[:, a], reference.values[:, b]
    with np.errstate(invalid="ignore", over="ignore"):
        sizes = np.fmax(np.abs(x), np.abs(y))
        finite = np.isfinite(sizes)
        # A norm is measured by itself, what may be near zero by the largest of the three.
        unit = np.empty_like(sizes)
        unit[0] = np.where(finite[0], sizes[0], 1.0)
        unit[1:] = np.where(finite, sizes, 0.0).max(axis=0)
        apart = np.where(x == y, 0.0, np.abs(x - y))
        both = ~(np.isnan(x) | np.isnan(y))
        equal = (~both | (apart <= EQUAL * unit)).all(axis=0)
        near = (~both | (apart <= NEAR * unit)).all(axis=0)
    known = (both & (x != 0)).any(axis=0)
    known &= (debug.numel[a] == reference.numel[b]) | (debug.count[a] != reference.count[b])
    same_data = (debug.checksum[a] != 0) & (debug.checksum[a] == reference.checksum[b])
    return np.where(same_data | (equal & known), 2, np.where(near & known, 1, 0))
