"""How far numbers may be off by rounding alone.

A sum of n terms in a type of rounding unit u is off by at most (n - 1) · u times the sum of the
norms of its terms. A sketch estimates the length of that from 32 sums of its own, and each of
these is rounded as float32 sums are.
"""

from __future__ import annotations

from msprobe_builder.graph.floating import rounding_unit
from msprobe_builder.sketch.estimates import ROUNDING

# An estimate from 32 sums is over 3 times what it estimates in one case of 10^50.
_SPREAD = 3.0
# What adds up more often than once per rank, as rings and trees do with what they pass on.
_PASSES = 2.0


def of_sum(norms: list[float], dtype: str, roundings: int | None = None) -> float:
    """The most by which the sketch of a sum may be off of the sum of sketches.

    ``norms`` are those of the terms; each of ``roundings``, by default one a term, is in ``dtype``.
    """
    count = _PASSES * len(norms) if roundings is None else roundings
    total = sum(norms)
    return _SPREAD * count * rounding_unit(dtype) / 2 * total + of_sketches(total)


def of_sketches(norm: float) -> float:
    """The most by which two sketches of tensors of this norm may differ that are equal."""
    return 2 * ROUNDING * norm
