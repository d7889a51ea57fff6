"""How far numbers may be off by rounding alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from msprobe_builder.graph.floating import rounding_unit
from msprobe_builder.sketch.estimates import ROUNDING

# A length that is estimated from 32 sums is more than twice what it is once in 10^15 cases.
_SPREAD = 2.0


def of_sum(norms: Sequence[float], dtype: str) -> float:
    """The most by which the sketch of a sum may be off of the sum of the terms' sketches.

    ``norms`` are those of the terms. Added up in any order, each partial sum but the first is
    rounded once, by half a unit of ``dtype`` at most, and is no longer than the longest of as many
    terms together.
    """
    partial = list(accumulate(sorted(norms, reverse=True)))
    rounded = sum(partial[1:]) * rounding_unit(dtype) / 2
    return _SPREAD * rounded + of_sketches(sum(norms))


def is_summed(dtype: str) -> bool:
    """Whether sums in a type are sums: small whole numbers begin anew where they end."""
    return dtype.endswith(("int32", "int64")) or rounding_unit(dtype) > 0


def of_scaling(norms: Sequence[float], dtype: str) -> float:
    """What multiplying each term, or their sum, adds to that."""
    return _SPREAD * sum(norms) * rounding_unit(dtype) / 2


def of_sketches(norm: float) -> float:
    """The most by which two sketches of tensors of this norm may differ that are equal.

    Each of the two was summed up as float32.
    """
    return 2 * ROUNDING * norm
